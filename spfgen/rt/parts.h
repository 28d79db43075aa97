/* The number of parts for so many nanoseconds of work, at most `most`. It depends on nothing else, so that sums are the
   same whatever the number of threads. */
static inline int spfgen_parts(double work, int most) {
    const double parts = work / TUNED_PART_NS;
    return parts < 1.0 ? 1 : parts < most ? (int)parts : most;
}
