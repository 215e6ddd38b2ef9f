/* One caller: a connection that is kept, the request on it, and the answer as it comes.
 *
 * Every answer is read to its end and must be whole: status 200, as many chunks of text as were
 * asked for, and [DONE]; of the Messages API, message_stop. When callers come, how often and how long is the business of `load.c`.
 */
#ifndef BENCH_CALLER_H
#define BENCH_CALLER_H

#include "body.h"
#include "samples.h"

enum state { IDLE, CONNECTING, SENDING, READING_HEAD, READING_BODY };

struct caller {
    int fd;
    enum state state;
    uint64_t start_at; /* the ramp, or a pause */
    size_t request_sent;
    struct buffer head, line;
    struct body body;

    uint64_t began, last_frame;
    int texts;
    int texts_before; /* those before the window was opened */
    bool is_done, is_refused;
    uint64_t stream; /* the mock's number for it, once a chunk has told */
};

/* What all callers ask for. */
struct wish {
    int port, expected_texts;
    long max_tokens;
    const char *path, *key, *model, *pace;
    bool is_buffered;
    bool may_be_refused; /* 503 is an answer, and not a failure */
    int anew_percent;    /* of the answers after which a caller hangs up */
    bool is_told_when;   /* who comes next, and when, is not for a caller to say */
    uint64_t pause_us; /* between an answer and the next request */
    struct buffer request;
};

/* What all callers have seen. */
struct sight {
    struct samples first_texts, gaps, transits, durations, refusals;
    long started, finished, failures, connected;
    uint64_t counts_from, counts_until; /* what begins before, or is finished after, does not count */
    long completed;
    uint64_t texts, frames, reads;
    char failure[300];
    struct buffer acks; /* the streams whose chunks have arrived, for the mock */
};

extern struct wish wish;
extern struct sight sight;
extern int epoll_fd;

/* Whether a caller comes again: `load.c` knows. */
bool may_start(void);

/* Writes the request that all callers send. */
void write_request(void);

void caller_start(struct caller *caller);
void caller_hang_up(struct caller *caller);
/* Its socket can be read, or written to. */
void caller_event(struct caller *caller);

#endif
