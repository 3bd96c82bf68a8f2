/* each_end.inc.c - ends what each_integer.inc.c and each_float.inc.c define for one dtype; no table. */
#undef T
#undef U
#undef N
#undef HIGHEST
#undef LOWEST
#undef DTYPE
