/* Values that differ by their number, the same as in sample.rs, and their comparison. */
#include "kinds.h"

/* The value of this number. It is valid until the next one is made. */
everything *sample(int number);

/* Whether both have the same encoding. */
int is_same(everything *left, everything *right);
