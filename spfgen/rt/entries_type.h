#ifndef SPFGEN_APPENDED
#define SPFGEN_APPENDED
#include <stdlib.h>
enum { SPFGEN_APPENDED_RANK = 32 };
/* The entries of a result whose pattern is computed: coordinate k of entry n is at[k][n], its value is values[n], of the
   type that the struct around says. They come in any order; those with the same coordinates add up. All zero before the
   first call. The kernel allocates, and uses again what is there; the caller frees with spfgen_appended_free. */
typedef struct spfgen_appended {
    int64_t count;    /* entries */
    int64_t capacity; /* how many there is memory for */
    int64_t failed;   /* there was no memory for all; the kernel returns SPFGEN_ERROR_MEMORY then, and none are left */
    int64_t most;     /* bytes that may be allocated for them, and for the workspaces of rows; 0: as many as there are */
    int64_t taken;    /* bytes that are allocated now */
    int64_t narrow;   /* where the caller says so: at[k] points to numbers of type int32_t, which all coordinates fit */
    int64_t may_group; /* where the caller says so: a kernel that delivers whole rows may set `grouped` */
    int64_t grouped;   /* 0, or 1 + k: coordinate k is one of groups of entries, at[k][g] of those up to ends[g] */
    int64_t groups;    /* how many */
    int64_t group_capacity;
    int64_t *ends;
    double expected;  /* how many there will be, about; for the kernel */
    struct spfgen_appended *whole; /* the list that these are a part of, which counts their bytes; NULL: this one */
    int64_t *at[SPFGEN_APPENDED_RANK];
    void *values;
    void *made;        /* the result, for entries that go to their place at once, and where its arrays come from */
    const void *memory;
    int64_t widest;    /* the entries of its largest group, or bucket of groups; -1 where all groups are in order */
    int32_t *group_of; /* the group of each entry, where they are in buckets */
    uint64_t *keys;    /* the key of each entry, in place of its coordinates; or the words of positions, in order */
    int64_t misplaced; /* 1 where the result has no place for an entry that goes to its place at once */
} spfgen_appended;
static inline void spfgen_appended_free(spfgen_appended *entries) {
    for (int k = 0; k < SPFGEN_APPENDED_RANK; k++) {
        free(entries->at[k]);
        entries->at[k] = NULL;
    }
    free(entries->values);
    free(entries->ends);
    free(entries->group_of);
    free(entries->keys);
    entries->group_of = NULL;
    entries->keys = NULL;
    entries->values = NULL;
    entries->ends = NULL;
    entries->count = entries->capacity = entries->failed = entries->taken = 0;
    entries->grouped = entries->groups = entries->group_capacity = 0;
}
#endif
