"""Words with a fixed meaning: element types (what they are in C and numpy), algorithms of finds, words of C."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ElementType:
    """`name` is numpy's; `kind` is one of b(ool) i(nteger) u(nsigned) f(loat) c(omplex)."""

    name: str
    c: str
    kind: str
    bytes: int


_ALL = (
    ElementType("bool", "bool", "b", 1),
    ElementType("int8", "int8_t", "i", 1),
    ElementType("int16", "int16_t", "i", 2),
    ElementType("int32", "int32_t", "i", 4),
    ElementType("int64", "int64_t", "i", 8),
    ElementType("uint8", "uint8_t", "u", 1),
    ElementType("uint16", "uint16_t", "u", 2),
    ElementType("uint32", "uint32_t", "u", 4),
    ElementType("uint64", "uint64_t", "u", 8),
    ElementType("float32", "float", "f", 4),
    ElementType("float64", "double", "f", 8),
    ElementType("complex64", "float _Complex", "c", 8),
    ElementType("complex128", "double _Complex", "c", 16),
)
TYPES = {t.name: t for t in _ALL}
ALIASES = {"float": "float32", "double": "float64", "int": "int32", "complex": "complex128"}
INDEX_TYPES = ("int32", "int64")
MARK_TYPES = ("uint8", *INDEX_TYPES)
"""Of index arrays that hold 0 and 1."""
DEFAULT_VALUE = "float64"
DEFAULT_WHOLE = "int64"

FINDS: Mapping[str, str] = {
    "loop": "Every position is compared.",
    "search": "Binary search among sorted keys.",
    "gallop": "From the last position found in growing steps; for sorted keys asked for in order.",
    "sequential": "From the last position found one by one; for sorted keys asked for in order.",
    "hash": "A hash map from keys to positions, built before the loops that look in it.",
    "array": "An array with the position of every possible key, built before the loops that look in it.",
    "bitmap": "A bit for every possible key, built before the loops that look in it.",
    "scatter": "The values copied to an array over all possible keys, where a key without a position has 0.",
}
"""The algorithms by which a schedule may have positions found, each in a sentence."""

KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
    _Bool _Complex _Imaginary bool complex true false I NULL main threads memset free
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t asm typeof linux unix
    alignas alignof constexpr nullptr static_assert thread_local typeof_unqual
    and and_eq bitand bitor catch char8_t char16_t char32_t class compl concept consteval constinit const_cast co_await
    co_return co_yield decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq
    operator or or_eq private protected public reinterpret_cast requires static_cast template this throw try typeid
    typename using virtual wchar_t xor xor_eq
    HUGE_VAL HUGE_VALF HUGE_VALL INFINITY NAN FP_NAN FP_INFINITE FP_ZERO FP_SUBNORMAL FP_NORMAL FP_ILOGB0 FP_ILOGBNAN
    MATH_ERRNO MATH_ERREXCEPT math_errhandling EXIT_FAILURE EXIT_SUCCESS RAND_MAX MB_CUR_MAX BIG_ENDIAN LITTLE_ENDIAN
    PDP_ENDIAN BYTE_ORDER FD_SETSIZE NFDBITS WNOHANG WUNTRACED WSTOPPED WEXITED WCONTINUED WNOWAIT M_E M_LOG2E M_LOG10E
    M_LN2 M_LN10 M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_2_SQRTPI M_SQRT2 M_SQRT1_2""".split()
) | frozenset(
    f"{kind}_{end}"
    for kind in (
        *(f"{u}INT{k}{b}" for u in ("", "U") for k in ("", "_FAST", "_LEAST") for b in (8, 16, 32, 64)),
        *"INTMAX UINTMAX INTPTR UINTPTR PTRDIFF SIZE SIG_ATOMIC WCHAR WINT".split(),
    )
    for end in ("MIN", "MAX")
)
"""Words that mean something in C or C++, macros of the headers that the generated C includes among them."""

_REAL = """acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10
    log1p log2 logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint lrint
    llrint round lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin fma cabs
    cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog conj cpow cproj creal csin csinh csqrt ctan
    ctanh""".split()
LIBRARY = frozenset(f"{name}{end}" for name in _REAL for end in ("", "f", "l")) | frozenset(
    """abort abs atexit atof atoi atol atoll bsearch calloc div exit getenv labs ldiv llabs lldiv malloc mblen mbstowcs
    mbtowc qsort rand realloc srand strtod strtof strtol strtold strtoll strtoul strtoull system wcstombs wctomb memchr
    memcmp memcpy memmove strcat strchr strcmp strcoll strcpy strcspn strerror strlen strncat strncmp strncpy strpbrk
    strrchr strspn strstr strtok strxfrm clearerr fclose feof ferror fflush fgetc fgetpos fgets fopen fprintf fputc
    fputs fread freopen fscanf fseek fsetpos ftell fwrite getc getchar gets perror printf putc putchar puts remove
    rename rewind scanf setbuf setvbuf sprintf sscanf tmpfile tmpnam ungetc vfprintf vprintf vsprintf snprintf clock
    time raise signal open close read write""".split()
)
"""Functions of the C library: a kernel of that name would be called in place of it."""


def has_meaning_in_c(name: str) -> bool:
    """Whether no name of ours may be this: a word of C or C++, or one that is kept for them or for spfgen."""
    return name in KEYWORDS or re.match("(?i:spfgen_)|omp_|__|_[A-Z]", name) is not None


def element_type(name: str) -> ElementType | None:
    """The type of that name (`double` is float64, `float` is float32, as in C), or None."""
    return TYPES.get(ALIASES.get(name, name))


def promoted(names: list[str]) -> ElementType:
    """The type in which values of these types are combined: numpy's promotion."""
    if not names:
        return TYPES[DEFAULT_VALUE]
    if len(set(names)) == 1:
        return TYPES[names[0]]
    import numpy as np

    return TYPES[np.result_type(*names).name]
