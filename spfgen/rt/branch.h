/* Keeps the conditions in a loop as branches. gcc (seen with 11 and 12, from AVX2 on) takes neighbouring elements that
   are loaded under conditions of their own for a vector, and loads all of it under the conditions of its first part. */
static inline void spfgen_branch(void) {
#if defined(__GNUC__) && !defined(__clang__)
    __asm__ volatile("");
#endif
}
