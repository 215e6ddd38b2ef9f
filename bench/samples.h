/* Samples in microseconds: all of them are kept, so that the quantiles are exact. */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include "common.h"

struct samples {
    uint32_t *values;
    size_t count, room;
};

static inline void samples_add(struct samples *samples, uint64_t value)
{
    if (samples->count == samples->room) {
        samples->room = samples->room ? samples->room * 2 : 4096;
        samples->values = must(realloc(samples->values, samples->room * sizeof *samples->values));
    }
    samples->values[samples->count++] = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static inline int samples_compare(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static inline uint32_t samples_quantile(const struct samples *sorted, double share)
{
    size_t index = (size_t)(share * (double)sorted->count);
    return sorted->count ? sorted->values[index < sorted->count ? index : sorted->count - 1] : 0;
}

/* As a member of a JSON object. */
static inline void samples_print(struct samples *samples, const char *name)
{
    if (samples->count)
        qsort(samples->values, samples->count, sizeof *samples->values, samples_compare);
    printf("\"%s_us\":{\"count\":%zu,\"p50\":%u,\"p99\":%u,\"most\":%u}", name, samples->count,
           samples_quantile(samples, 0.5), samples_quantile(samples, 0.99), samples_quantile(samples, 1));
}

#endif
