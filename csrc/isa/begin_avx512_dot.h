#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512bf16,avx512vnni,avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c"))), apply_to = function)
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC target("avx512bf16,avx512vnni,avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#endif
