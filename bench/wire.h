/* The wires that the mock provider speaks: how one answer looks on each of them.
 *
 * A wire is chosen by the path of the request. Each writes the same answer: a start, chunks of
 * text, an end with the usage; each event is one chunk of the HTTP body. Nothing here knows a
 * socket or a time: `upstream.c` says when what is written.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include "common.h"

#define AMAZON_STREAM "application/vnd.amazon.eventstream"

struct wire;

struct answer {
    const struct wire *wire;
    uint64_t stream; /* a number that no other answer has */
    int chunks;      /* of text, in all */
    int sent;        /* of them */
    bool wants_usage;
};

typedef void answer_writer(struct buffer *output, const struct answer *answer);

struct wire {
    const char *mark; /* what the path of a request has that wants it */
    answer_writer *start, *end;
    void (*text)(struct buffer *output, const struct answer *answer, const char *text);
    bool streams_by_path;  /* or by "stream":true in the body */
    bool has_whole_answer; /* the mock gives one, to those who do not want a stream */
    const char *id, *model; /* how it calls an answer, and itself */
    const char *media;      /* the content type of its streams; NULL: text */
};

/* By the first line of a request's head. */
const struct wire *wire_of(const char *line, size_t length);

/* The JSON of an answer that is not streamed. */
void write_whole(struct buffer *output, const struct answer *answer);

#endif
