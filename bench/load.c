/* The load generator: callers of chat completions, and what they see.
 *
 *     load --port N --key K --pace "chunks=200,first=0,gap=0,lockstep=1" --streams 64 --seconds 3
 *
 * Keeps so many requests open at once, each on a connection of its own that is kept alive, until
 * so many were made (--requests) or so much time has passed (--seconds). Every answer is read to
 * its end and must be whole: status 200, as many chunks of text as the pace asks for, and [DONE].
 * The report is one JSON object on standard output, in microseconds.
 *
 * --acks FIFO: says to the mock provider (see upstream.c) which chunks have arrived.
 * --cancels N: no stream is read to its end. When all are open, one at a time is chosen by chance,
 * at a moment chosen by chance (--every-us apart in the mean), reset, and opened anew. The report
 * has the number of the stream and the moment of each reset.
 */
#define _GNU_SOURCE
#include "body.h"
#include "samples.h"
#include <getopt.h>

enum state { IDLE, CONNECTING, SENDING, READING_HEAD, READING_BODY };

struct caller {
    int fd;
    enum state state;
    uint64_t start_at; /* the ramp, or the pause after a failure */
    size_t request_sent;
    struct buffer head, line;
    struct body body;

    uint64_t began, last_frame;
    int texts;
    bool is_done;
    uint64_t stream; /* the mock's number for it, once a chunk has told */
};

/* ---- What was asked for */

static int port, streams = 64, ramp_ms, expected_texts, patience_s = 60;
static long most_requests, cancels, every_us = 5000;
static double seconds;
static bool is_buffered;
static const char *path = "/v1/chat/completions", *key = "", *model = "gpt-4o-mini", *pace = "";

/* ---- What was seen */

static struct samples first_texts, gaps, transits, durations;
static long started, finished, failures;
static uint64_t texts, frames, reads, began_all, ended_all;
static char failure[300];
static struct buffer cancelled;

static int epoll_fd, acks_fd = -1;
static struct buffer request, acks;
static struct caller *callers;
static long cancels_made;
static uint64_t next_cancel;

/* A xorshift: the same moments and the same choice of streams in every run. */
static uint64_t chance(uint64_t below)
{
    static uint64_t state = 0x9E3779B97F4A7C15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* ---- One request after the other */

static bool may_start(void)
{
    if (cancels)
        return cancels_made < cancels;
    if (most_requests)
        return started < most_requests;
    return now_us() - began_all < (uint64_t)(seconds * 1e6);
}

static void hang_up(struct caller *caller)
{
    if (caller->fd >= 0)
        close(caller->fd);
    caller->fd = -1;
    caller->state = IDLE;
}

static void fail(struct caller *caller, const char *why, const char *detail, size_t length)
{
    if (!failures++) {
        snprintf(failure, sizeof failure, "%s %.*s", why, (int)(length < 200 ? length : 200), detail);
        for (char *at = failure; *at; at++)
            if (*at == '"' || *at == '\\' || (unsigned char)*at < ' ')
                *at = '\'';
    }
    hang_up(caller);
    finished++;
    caller->start_at = now_us() + 20000;
}

static void send_request(struct caller *caller)
{
    while (caller->request_sent < request.length) {
        ssize_t count = send(caller->fd, request.bytes + caller->request_sent, request.length - caller->request_sent,
                             MSG_NOSIGNAL);
        if (count < 0 && errno == EAGAIN) {
            watch(epoll_fd, EPOLL_CTL_MOD, caller->fd, EPOLLOUT, caller);
            return;
        }
        if (count < 0) {
            fail(caller, "sending:", strerror(errno), 40);
            return;
        }
        caller->request_sent += (size_t)count;
    }
    caller->state = READING_HEAD;
    watch(epoll_fd, EPOLL_CTL_MOD, caller->fd, EPOLLIN, caller);
}

static void connect_caller(struct caller *caller)
{
    caller->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    send_at_once(caller->fd);
    struct sockaddr_in address = loopback(port);
    if (connect(caller->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS)
        die("connect");
    caller->state = CONNECTING;
    watch(epoll_fd, EPOLL_CTL_ADD, caller->fd, EPOLLOUT, caller);
}

static void start(struct caller *caller)
{
    started++;
    caller->start_at = 0;
    caller->request_sent = 0;
    caller->head.length = caller->line.length = 0;
    caller->last_frame = caller->stream = 0;
    caller->texts = 0;
    caller->is_done = false;
    caller->began = now_us();
    if (caller->fd < 0) {
        connect_caller(caller);
    } else {
        caller->state = SENDING;
        send_request(caller);
    }
}

static void complete(struct caller *caller)
{
    samples_add(&durations, now_us() - caller->began);
    if (!is_buffered && (!caller->is_done || caller->texts != expected_texts)) {
        char seen[80];
        const char *end = caller->is_done ? "" : ", no end";
        int length = snprintf(seen, sizeof seen, "%d chunks of text%s", caller->texts, end);
        fail(caller, "not whole:", seen, (size_t)length);
        return;
    }
    finished++;
    if (caller->body.must_close)
        hang_up(caller);
    if (may_start())
        start(caller);
    else
        hang_up(caller);
}

/* ---- Reading an answer */

/* The mock's text is " TIME.STREAM": how long it was on its way, and whom to thank for it. */
static void take_text(struct caller *caller, const char *text, uint64_t now)
{
    char *rest;
    uint64_t sent = strtoull(text, &rest, 10);
    if (*rest != '.' || sent > now)
        return;
    samples_add(&transits, now - sent);
    caller->stream = strtoull(rest + 1, NULL, 10);
    if (acks_fd >= 0)
        buffer_add(&acks, &caller->stream, sizeof caller->stream);
}

static void take_line(struct caller *caller, const char *line, size_t length, uint64_t now)
{
    static const char CONTENT[] = "\"content\":";
    if (length < 6 || memcmp(line, "data:", 5))
        return;
    if (memmem(line, length < 16 ? length : 16, "[DONE]", 6)) {
        caller->is_done = true;
        return;
    }
    frames++;
    const char *text = memmem(line, length, CONTENT, sizeof CONTENT - 1);
    if (text) {
        text += sizeof CONTENT - 1;
        text += *text == ' ';
        if (text[0] == '"' && text[1] != '"') {
            if (!caller->texts++)
                samples_add(&first_texts, now - caller->began);
            texts++;
            take_text(caller, text + 1, now);
        }
    }
    if (caller->last_frame)
        samples_add(&gaps, now - caller->last_frame);
    caller->last_frame = now;
}

static void take_body(void *whom, const char *bytes, size_t count)
{
    struct caller *caller = whom;
    if (is_buffered)
        return;
    uint64_t now = now_us();
    for (const char *end = bytes + count, *newline; bytes < end; bytes = newline + 1) {
        newline = memchr(bytes, '\n', (size_t)(end - bytes));
        buffer_add(&caller->line, bytes, (size_t)((newline ? newline : end) - bytes));
        if (!newline)
            return;
        buffer_add(&caller->line, "", 1);
        take_line(caller, caller->line.bytes, caller->line.length - 1, now);
        caller->line.length = 0;
    }
}

/* Takes the head's bytes off the front of what came. False: it is not whole yet, or not the one that we want. */
static bool take_head(struct caller *caller, const char **bytes, size_t *count)
{
    size_t before = caller->head.length;
    buffer_add(&caller->head, *bytes, *count);
    char *end = memmem(caller->head.bytes, caller->head.length, "\r\n\r\n", 4);
    if (!end)
        return false;
    caller->head.length = (size_t)(end - caller->head.bytes) + 4;
    *bytes += caller->head.length - before;
    *count -= caller->head.length - before;
    if (caller->head.length < 16 || memcmp(caller->head.bytes + 8, " 200", 4)) {
        fail(caller, caller->head.length < 16 ? "not HTTP:" : "not 200:", *bytes, *count);
        return false;
    }
    buffer_add(&caller->head, "", 1);
    caller->body = body_of(caller->head.bytes);
    caller->state = READING_BODY;
    return true;
}

static void read_answer(struct caller *caller)
{
    static char piece[1 << 18];
    ssize_t received = recv(caller->fd, piece, sizeof piece, 0);
    if (received < 0 && errno == EAGAIN)
        return;
    if (received <= 0) {
        fail(caller, "closed:", received ? strerror(errno) : "", received ? 40 : 0);
        return;
    }
    reads++;
    const char *bytes = piece;
    size_t count = (size_t)received;
    if (caller->state == READING_HEAD && !take_head(caller, &bytes, &count))
        return;
    if (body_take(&caller->body, bytes, count, take_body, caller))
        complete(caller);
}

/* ---- Cancelling */

static bool all_are_open(void)
{
    for (int index = 0; index < streams; index++)
        if (!callers[index].stream)
            return false;
    return true;
}

/* Resets a stream that has begun, and has its caller come again. */
static void cancel_one(void)
{
    struct caller *caller = &callers[chance((uint64_t)streams)];
    if (!caller->stream)
        return;
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(caller->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    buffer_print(&cancelled, "%s[%llu,%llu]", cancels_made ? "," : "", (unsigned long long)caller->stream,
                 (unsigned long long)now_us());
    hang_up(caller);
    cancels_made++;
    caller->stream = 0;
    if (may_start())
        start(caller);
}

static void cancel_when_due(uint64_t now)
{
    if (!next_cancel) {
        if (all_are_open())
            next_cancel = now + (uint64_t)every_us;
    } else if (now >= next_cancel && cancels_made < cancels) {
        cancel_one();
        next_cancel = now + chance((uint64_t)every_us * 2);
    }
}

/* ---- The loop */

static void take_event(struct caller *caller)
{
    if (caller->state == CONNECTING) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(caller->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error) {
            fail(caller, "connecting:", strerror(error), 40);
            return;
        }
        caller->state = SENDING;
    }
    if (caller->state == SENDING)
        send_request(caller);
    else if (caller->state >= READING_HEAD)
        read_answer(caller);
}

/* Starts those whose moment has come. False: nobody is busy, and nobody will be. */
static bool start_callers(uint64_t now)
{
    bool is_busy = false;
    for (int index = 0; index < streams; index++) {
        struct caller *caller = &callers[index];
        if (caller->state != IDLE) {
            is_busy = true;
        } else if (caller->start_at && may_start()) {
            is_busy = true;
            if (caller->start_at <= now)
                start(caller);
        }
    }
    return is_busy;
}

/* False: the time that the whole run may take is over. */
static bool run(void)
{
    static struct epoll_event events[EVENTS_AT_ONCE];
    for (uint64_t looked = 0; !is_told_to_stop;) {
        uint64_t now = now_us();
        if (now - began_all > (uint64_t)patience_s * 1000000)
            return false;
        if (cancels)
            cancel_when_due(now);
        if (now - looked >= 1000) {
            looked = now;
            if (!start_callers(now) || (cancels && cancels_made >= cancels))
                return true;
        }
        int count = epoll_wait(epoll_fd, events, EVENTS_AT_ONCE, 1);
        for (int index = 0; index < count; index++)
            take_event(events[index].data.ptr);
        if (acks.length && write(acks_fd, acks.bytes, acks.length) != (ssize_t)acks.length)
            die("acks");
        acks.length = 0;
    }
    return true;
}

static void write_request(void)
{
    static const char SYSTEM[] = "You are a helpful assistant. Answer in a concise manner and cite your sources.";
    static const char PROMPT[] =
        "I am planning a trip across three countries in late spring and would like to know which rail passes make "
        "sense, how early the seats should be reserved, and whether night trains are a sensible choice for a family "
        "of four with two small children. Please compare the costs with short flights, list the practical drawbacks "
        "of each option, and propose an itinerary of ten days with no more than four hours of travel a day. We like "
        "museums, quiet parks, food markets and the sea; we do not like long queues or very early starts.";
    struct buffer body = {0};
    buffer_print(&body, "{\"model\":\"%s\",", model);
    if (!is_buffered)
        buffer_print(&body, "\"stream\":true,\"stream_options\":{\"include_usage\":true},");
    buffer_print(&body,
                 "\"temperature\":0.7,\"max_tokens\":512,\"messages\":[{\"role\":\"system\",\"content\":\"%s\"},"
                 "{\"role\":\"user\",\"content\":\"pace:%s. %s\"}],\"user\":\"user-1234\"}",
                 SYSTEM, pace, PROMPT);
    buffer_print(&request,
                 "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: load\r\nAccept: */*\r\n"
                 "Content-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n",
                 path, port, key, body.length);
    buffer_add(&request, body.bytes, body.length);
    buffer_free(&body);
}

static void report(bool is_in_time)
{
    struct {
        const char *name;
        struct samples *samples;
    } all[] = {{"first_text", &first_texts}, {"gap", &gaps}, {"transit", &transits}, {"duration", &durations}};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        putchar(index ? ',' : '{');
        samples_print(all[index].samples, all[index].name);
    }
    printf(",\"elapsed_s\":%.6f,\"requests\":%ld,\"texts\":%llu,\"frames\":%llu,\"frames_per_read\":%.3f,",
           (double)(ended_all - began_all) / 1e6, finished, (unsigned long long)texts, (unsigned long long)frames,
           reads ? (double)frames / (double)reads : 0.0);
    printf("\"cancelled\":[%.*s],\"failures\":%ld,\"failure\":\"%s\",\"in_time\":%s}\n", (int)cancelled.length,
           cancelled.length ? cancelled.bytes : "", failures, failure, is_in_time ? "true" : "false");
}

static void read_options(int count, char **words)
{
    static const struct option OPTIONS[] = {
        {"port", 1, 0, 'p'},      {"path", 1, 0, 'u'},       {"key", 1, 0, 'k'},      {"model", 1, 0, 'm'},
        {"streams", 1, 0, 'c'},   {"requests", 1, 0, 'n'},   {"seconds", 1, 0, 't'},  {"ramp-ms", 1, 0, 'r'},
        {"pace", 1, 0, 'P'},      {"buffered", 0, 0, 'b'},   {"acks", 1, 0, 'a'},     {"cancels", 1, 0, 'x'},
        {"every-us", 1, 0, 'e'},  {"patience-s", 1, 0, 'T'}, {0},
    };
    for (int option; (option = getopt_long(count, words, "", OPTIONS, NULL)) != -1;) {
        switch (option) {
        case 'p': port = atoi(optarg); break;
        case 'u': path = optarg; break;
        case 'k': key = optarg; break;
        case 'm': model = optarg; break;
        case 'c': streams = atoi(optarg); break;
        case 'n': most_requests = atol(optarg); break;
        case 't': seconds = atof(optarg); break;
        case 'r': ramp_ms = atoi(optarg); break;
        case 'P': pace = optarg; break;
        case 'b': is_buffered = true; break;
        case 'a': acks_fd = open_fifo(optarg); break;
        case 'x': cancels = atol(optarg); break;
        case 'e': every_us = atol(optarg); break;
        case 'T': patience_s = atoi(optarg); break;
        default: exit(2);
        }
    }
    sscanf(pace, "chunks=%d", &expected_texts);
}

int main(int count, char **words)
{
    read_options(count, words);
    stop_on_signals();
    write_request();
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    callers = must(calloc((size_t)streams, sizeof *callers));
    began_all = now_us();
    for (int index = 0; index < streams; index++) {
        callers[index].fd = -1;
        callers[index].start_at = began_all + (uint64_t)ramp_ms * 1000 * (uint64_t)index / (uint64_t)streams;
    }
    bool is_in_time = run();
    ended_all = now_us();
    report(is_in_time);
    return 0;
}
