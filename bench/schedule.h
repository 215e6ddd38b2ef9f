/* A schedule: a heap of things that are due at some time, the first of them on top. */
#ifndef BENCH_SCHEDULE_H
#define BENCH_SCHEDULE_H

#include "common.h"

/* The first member of whatever is scheduled. */
struct timed {
    uint64_t due;
    int place; /* in the heap; -1: not in it */
};

struct schedule {
    struct timed **heap;
    int length, room;
};

static inline void schedule_put(struct schedule *schedule, int place, struct timed *timed)
{
    schedule->heap[place] = timed;
    timed->place = place;
}

static inline void schedule_rise(struct schedule *schedule, int place)
{
    struct timed **heap = schedule->heap, *timed = heap[place];
    for (; place > 0 && heap[(place - 1) / 2]->due > timed->due; place = (place - 1) / 2)
        schedule_put(schedule, place, heap[(place - 1) / 2]);
    schedule_put(schedule, place, timed);
}

static inline void schedule_sink(struct schedule *schedule, int place)
{
    struct timed **heap = schedule->heap, *timed = heap[place];
    for (int child; (child = 2 * place + 1) < schedule->length; place = child) {
        if (child + 1 < schedule->length && heap[child + 1]->due < heap[child]->due)
            child++;
        if (heap[child]->due >= timed->due)
            break;
        schedule_put(schedule, place, heap[child]);
    }
    schedule_put(schedule, place, timed);
}

static inline void schedule_add(struct schedule *schedule, struct timed *timed, uint64_t due)
{
    if (schedule->length == schedule->room) {
        schedule->room = schedule->room ? schedule->room * 2 : 1024;
        schedule->heap = must(realloc(schedule->heap, (size_t)schedule->room * sizeof *schedule->heap));
    }
    timed->due = due;
    schedule_put(schedule, schedule->length++, timed);
    schedule_rise(schedule, timed->place);
}

static inline void schedule_remove(struct schedule *schedule, struct timed *timed)
{
    int place = timed->place;
    if (place < 0)
        return;
    timed->place = -1;
    struct timed *last = schedule->heap[--schedule->length];
    if (last != timed) {
        schedule_put(schedule, place, last);
        schedule_rise(schedule, place);
        schedule_sink(schedule, last->place);
    }
}

/* The first one, if it is due. It is in the schedule no more. */
static inline struct timed *schedule_take(struct schedule *schedule, uint64_t now)
{
    if (!schedule->length || schedule->heap[0]->due > now)
        return NULL;
    struct timed *first = schedule->heap[0];
    schedule_remove(schedule, first);
    return first;
}

#endif
