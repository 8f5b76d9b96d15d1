/*
 * Copyright (c) 2026 the vmaf_gpu authors
 * SPDX-License-Identifier: BSD-2-Clause
 *
 * What the tests of all device tables have in common: opening devices, work whose order shows, the program open_device, and
 * the tests of what every table does alike. Two software devices are below them.
 */
#ifndef VG_TESTS_DEVICE_TESTS_H
#define VG_TESTS_DEVICE_TESTS_H

#include "engine/device.h"
#include "tests/messages.h"

#define OK(call) assert_int_equal(call, 0)

enum { BLOCK = 32 };

/** What most tests need. */
typedef struct Rig {
    VgDevice *d;
    VgModule module;
    VgFunction function;
    VgStream stream, other;
    VgEvent event;
    uint64_t at;    /* BLOCK numbers, zeros */
    uint32_t *host; /* the same, pinned */
} Rig;

/** The table that a program tests, and its driver: each program defines it. */
typedef struct TestedTable {
    const VgDeviceTable *table;
    const char *prefix;      /* of the driver's calls: "cu" */
    const char *environment; /* that open_device needs: "NAME=VALUE", or "" */
    void (*fail_at)(unsigned long n, int code);
    void (*fail_call)(const char *name, unsigned long n, int code);
    unsigned long (*driver_calls)(void);
    unsigned long (*complaints)(void);

    const char *kernel;      /* that rigs look up */
    uint32_t dynamic_shared; /* which it may be asked for */
    /** Two pieces of work, turn 0 and 1. */
    int (*work)(Rig *r, VgStream stream, int turn);
    uint32_t first, last; /* numbers that they leave if they are done in that order, each once */

    const char *const *calls; /* that can fail once a device is open; NULL ends them */
    const char *unknown;      /* how the driver tells error 999 */
} TestedTable;

extern const TestedTable tested;

/** What the latest try_open() and calls with test_log said. */
extern Messages messages;
extern const VgLog test_log;
/** Objects of the software device that stay when all devices are closed. */
extern size_t live_objects;

/** Opens a device, or does not. `context`: the caller's, or NULL. */
int try_open(VgDevice **d, const char *which, void *context);
/** Opens a device and enters it. */
VgDevice *opened(const char *which);
/** Leaves and closes it; nothing stays. */
void closed(VgDevice *d);

void rig_open(Rig *r);
void rig_close(Rig *r);
/** Copies the numbers to the host. */
int rig_fetch(Rig *r, VgStream stream);

/** The nth driver call of open() fails with this code. If open() does, it says why once and leaves nothing. */
int failing_open(unsigned long n, int code, const char *which, void *context, unsigned long *calls);

/** What open_device says with these variables in its environment. */
const char *said(const char *variables, const char *argument);
void assert_says(const char *variables, const char *argument, const char *words);
/** Makes an empty folder for drivers. */
void make_folder(char path[40]);
void remove_folder(const char *path);
/** Makes a file there that is no library, with a library's name. */
void make_broken_library(const char *folder, const char *name);

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

void devices_are_chosen_by_index_and_pci_id(void **state);
void memory_is_copied_and_filled(void **state);
void work_is_ordered_by_streams_and_events(void **state);
void streams_do_not_wait_for_the_default_stream(void **state);
void timed_events_tell_times(void **state);
void graphs_are_recorded_and_run_again(void **state);
void errors_name_the_call_that_failed(void **state);

#endif
