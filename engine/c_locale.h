/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * Numbers are read and written with a decimal point, whatever locale the calling program has set.
 */
#ifndef VG_C_LOCALE_H
#define VG_C_LOCALE_H

#include <locale.h>

typedef struct VgCLocale {
    locale_t c, old;
} VgCLocale;

/** Switches the calling thread to the "C" locale; pair with vg_c_locale_leave(). */
static inline VgCLocale vg_c_locale_enter(void)
{
    VgCLocale l = { .c = newlocale(LC_ALL_MASK, "C", (locale_t)0) };
    l.old = l.c ? uselocale(l.c) : (locale_t)0;
    return l;
}

static inline void vg_c_locale_leave(VgCLocale l)
{
    if (!l.c)
        return;
    uselocale(l.old);
    freelocale(l.c);
}

#endif
