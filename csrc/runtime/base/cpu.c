/* cpu.c - which instruction sets this machine runs, and which one is asked for. */
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "isa/tables.h"
#include "runtime/base/runtime.h"

#define NAME(isa, rank) {#isa, rank, false},
static hyb_isa isas[] = {HYB_ISAS(NAME)};
#undef NAME
enum { N_ISAS = sizeof isas / sizeof isas[0] };

static char supported_names[64];

#if defined(__x86_64__)
/* Of the 256 bits that AVX2 has, too: what __builtin_cpu_supports knows by name in newer compilers. */
static bool has_avx_vnni(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

#if defined(__aarch64__)
static bool has_dots(void)
{
#if defined(__linux__)
    return getauxval(AT_HWCAP) >> 20 & 1; /* HWCAP_ASIMDDP */
#else
    return true; /* of Apple, all */
#endif
}
#endif

static bool supports(const char *isa)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (strcmp(isa, "avx2") == 0)
        return avx2;
    if (strcmp(isa, "avx_vnni") == 0)
        return avx2 && has_avx_vnni();
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl");
    if (strcmp(isa, "avx512") == 0)
        return avx512;
    if (strcmp(isa, "avx512_dot") == 0)
        return avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
#endif
#if defined(__aarch64__)
    if (strcmp(isa, "neon_dot") == 0)
        return has_dots();
#endif
    (void)isa; /* baseline and neon are what the compiler's default target has */
    return true;
}

const hyb_isa *hyb_isas(int *count)
{
    *count = N_ISAS;
    return isas;
}

const hyb_isa *hyb_select_isa(void)
{
    const hyb_isa *best = NULL, *asked = NULL;
    const char *name = getenv("HYBRID_ISA");
    char *end = supported_names;
    supported_names[0] = 0;
    for (int i = 0; i < N_ISAS; i++) {
        isas[i].supported = supports(isas[i].name);
        if (!isas[i].supported)
            continue;
        const char *const space = best ? " " : "";
        end += snprintf(end, (size_t)(supported_names + sizeof supported_names - end), "%s%s", space, isas[i].name);
        best = &isas[i];
        if (name && strcmp(name, isas[i].name) == 0)
            asked = &isas[i];
    }
    if (!name || !name[0])
        return best;
    if (!asked)
        hyb_fail(HYB_BAD_ARGUMENT,
                 "HYBRID_ISA=%.40s: not an instruction set of this machine, which has: %s", name,
                 supported_names);
    return asked;
}

const char *hyb_isas_supported(void) { return supported_names; }
