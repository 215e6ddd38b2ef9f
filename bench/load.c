/* The load generator: callers of chat completions, when they come, and what they see.
 *
 *     load --port N --key K --pace "chunks=200,first=0,gap=0,lockstep=1" --streams 64 --seconds 3
 *
 * Keeps so many requests open at once, each on a connection of its own that is kept alive, until
 * so many were made (--requests) or so much time has passed (--seconds). --pause-us: how long a
 * caller waits between two requests. The report is one JSON object on standard output.
 *
 * --max-tokens N: what is asked for at most. The mock does not heed it, so it must be more than is
 * sent: a text of the mock is some ten tokens. Who sends more than was asked for is not what is measured.
 *
 * --acks FIFO: says to the mock provider (see upstream.c) which chunks have arrived.
 *
 * --cancels N: no stream is read to its end. When all are open, one at a time is chosen by chance,
 * at a moment chosen by chance (--every-us apart in the mean), reset, and opened anew. The report
 * has the number of the stream and the moment of each reset.
 *
 * --rate R: so many requests a second come, whether or not the others were answered (an open loop), on the first of
 * the connections that is free, as pools of clients do; where none is, one is missed. To be refused with 503 is no
 * failure then: it is counted, and how long it took (as with --may-refuse, where it is not an open loop). --anew N: so
 * many in a hundred of the callers that were answered hang up, and come again on a new connection.
 * "completed" is what was answered in full within --seconds, less those of --settle, of which nothing is counted.
 *
 * --window S: no stream is read to its end. When all are open, and have been for a second, "open" is
 * printed, and S seconds later "shut": what comes between is what is counted. Nothing of the opening
 * is in it, nor what piled up meanwhile.
 */
#define _GNU_SOURCE
#include "caller.h"
#include <getopt.h>

static int streams = 64, ramp_ms, timeout_s = 60;
static long most_requests, cancels, every_us = 5000;
static double seconds, window_s, rate, settle_s;
static long missed;

static struct caller *callers;
static int acks_fd = -1;
static uint64_t began_all, ended_all;

static struct buffer cancelled;
static long cancels_made;
static uint64_t next_cancel;

enum { SETTLE_US = 1000000 };
static uint64_t all_open_at, window_began, window_ended;

int epoll_fd;

bool may_start(void)
{
    if (cancels)
        return cancels_made < cancels;
    if (window_s > 0)
        return sight.started < streams;
    if (most_requests)
        return sight.started < most_requests;
    return now_us() - began_all < (uint64_t)(seconds * 1e6);
}

static bool all_are_open(void)
{
    for (int index = 0; index < streams; index++)
        if (!callers[index].stream)
            return false;
    return true;
}

/* ---- Cancelling */

/* A xorshift: the same moments and the same choice of streams in every run. */
static uint64_t chance(uint64_t below)
{
    static uint64_t state = 0x9E3779B97F4A7C15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void reset(struct caller *caller)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    setsockopt(caller->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    caller_hang_up(caller);
}

/* Resets a stream that has begun, and has its caller come again. */
static void cancel_one(void)
{
    struct caller *caller = &callers[chance((uint64_t)streams)];
    if (!caller->stream)
        return;
    buffer_print(&cancelled, "%s[%llu,%llu]", cancels_made ? "," : "", (unsigned long long)caller->stream,
                 (unsigned long long)now_us());
    reset(caller);
    cancels_made++;
    caller->stream = 0;
    if (may_start())
        caller_start(caller);
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

/* ---- The window */

static void say(const char *word)
{
    puts(word);
    fflush(stdout);
}

static void open_window(uint64_t now)
{
    window_began = now;
    sight.texts = sight.frames = sight.reads = 0;
    sight.gaps.count = sight.transits.count = 0;
    for (int index = 0; index < streams; index++)
        callers[index].texts_before = callers[index].texts;
    say("open");
}

/* False: it has been shut, or will never be opened. */
static bool look_at_window(uint64_t now)
{
    if (!all_open_at && all_are_open())
        all_open_at = now;
    if (!window_began && all_open_at && now - all_open_at >= SETTLE_US)
        open_window(now);
    if (window_began && now - window_began >= (uint64_t)(window_s * 1e6))
        window_ended = now;
    if (window_ended)
        say("shut");
    return !window_ended && !sight.failures;
}

static int least_texts_in_window(void)
{
    int least = callers[0].texts - callers[0].texts_before;
    for (int index = 1; index < streams; index++)
        if (callers[index].texts - callers[index].texts_before < least)
            least = callers[index].texts - callers[index].texts_before;
    return least;
}

/* ---- The loop */

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
                caller_start(caller);
        }
    }
    return is_busy;
}

/* Starts as many as should have come by now. False: no more will come, and nobody is busy. */
static bool start_due(uint64_t now)
{
    bool is_over = !may_start();
    long due = is_over ? 0 : (long)((double)(now - began_all) * rate / 1e6) - sight.started - missed;
    for (int index = 0; due > 0 && index < streams; index++)
        if (callers[index].state == IDLE) {
            caller_start(&callers[index]);
            due--;
        }
    missed += due;
    if (!is_over)
        return true;
    for (int index = 0; index < streams; index++)
        if (callers[index].state != IDLE)
            return true;
    return false;
}

/* What the FIFO does not take stays for the next time. It takes whole numbers: its pages are a multiple of them. */
static void send_acks(void)
{
    if (acks_fd < 0)
        sight.acks.length = 0;
    if (!sight.acks.length)
        return;
    ssize_t count = write(acks_fd, sight.acks.bytes, sight.acks.length);
    if (count < 0 && errno != EAGAIN)
        die("acks");
    if (count > 0)
        buffer_take(&sight.acks, (size_t)count);
}

/* False: the time that the whole run may take is over. */
static bool run(void)
{
    static struct epoll_event events[EVENTS_AT_ONCE];
    for (uint64_t looked = 0; !is_told_to_stop;) {
        uint64_t now = now_us();
        if (now - began_all > (uint64_t)timeout_s * 1000000)
            return false;
        if (cancels)
            cancel_when_due(now);
        if (window_s > 0 && !look_at_window(now))
            return true;
        if (rate > 0 && !start_due(now))
            return true;
        if (!(rate > 0) && now - looked >= 1000) {
            looked = now;
            if (!start_callers(now) || (cancels && cancels_made >= cancels))
                return true;
        }
        int count = epoll_wait(epoll_fd, events, EVENTS_AT_ONCE, 1);
        for (int index = 0; index < count; index++)
            caller_event(events[index].data.ptr);
        send_acks();
    }
    return true;
}

static void report(bool is_in_time)
{
    struct {
        const char *name;
        struct samples *samples;
    } all[] = {{"first_text", &sight.first_texts},
               {"gap", &sight.gaps},
               {"transit", &sight.transits},
               {"duration", &sight.durations},
               {"refusal", &sight.refusals}};
    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        putchar(index ? ',' : '{');
        samples_print(all[index].samples, all[index].name);
    }
    uint64_t from = window_began ? window_began : began_all, to = window_ended ? window_ended : ended_all;
    printf(",\"elapsed_s\":%.6f,\"requests\":%ld,\"texts\":%llu,\"frames\":%llu,\"frames_per_read\":%.3f,",
           (double)(to - from) / 1e6, sight.finished, (unsigned long long)sight.texts,
           (unsigned long long)sight.frames, sight.reads ? (double)sight.frames / (double)sight.reads : 0.0);
    printf("\"completed\":%ld,\"missed\":%ld,\"started\":%ld,\"connected\":%ld,", sight.completed, missed,
           sight.started, sight.connected);
    printf("\"least_texts\":%d,\"cancelled\":[%.*s],", least_texts_in_window(), (int)cancelled.length,
           cancelled.length ? cancelled.bytes : "");
    printf("\"failures\":%ld,\"failure\":\"%s\",\"in_time\":%s}\n", sight.failures, sight.failure,
           is_in_time ? "true" : "false");
}

static void read_options(int count, char **words)
{
    static const struct option OPTIONS[] = {
        {"port", 1, 0, 'p'},     {"path", 1, 0, 'u'},       {"key", 1, 0, 'k'},      {"model", 1, 0, 'm'},
        {"streams", 1, 0, 'c'},  {"requests", 1, 0, 'n'},   {"seconds", 1, 0, 't'},  {"ramp-ms", 1, 0, 'r'},
        {"pace", 1, 0, 'P'},     {"buffered", 0, 0, 'b'},   {"acks", 1, 0, 'a'},     {"cancels", 1, 0, 'x'},
        {"every-us", 1, 0, 'e'}, {"timeout-s", 1, 0, 'T'}, {"pause-us", 1, 0, 'w'}, {"window", 1, 0, 'W'},
        {"max-tokens", 1, 0, 'M'}, {"rate", 1, 0, 'R'},      {"anew", 1, 0, 'A'},
        {"may-refuse", 0, 0, 'F'}, {"settle", 1, 0, 'S'},    {0},
    };
    for (int option; (option = getopt_long(count, words, "", OPTIONS, NULL)) != -1;) {
        switch (option) {
        case 'p': wish.port = atoi(optarg); break;
        case 'u': wish.path = optarg; break;
        case 'k': wish.key = optarg; break;
        case 'm': wish.model = optarg; break;
        case 'c': streams = atoi(optarg); break;
        case 'n': most_requests = atol(optarg); break;
        case 't': seconds = atof(optarg); break;
        case 'r': ramp_ms = atoi(optarg); break;
        case 'P': wish.pace = optarg; break;
        case 'b': wish.is_buffered = true; break;
        case 'a': acks_fd = open_fifo(optarg); break;
        case 'x': cancels = atol(optarg); break;
        case 'e': every_us = atol(optarg); break;
        case 'T': timeout_s = atoi(optarg); break;
        case 'w': wish.pause_us = strtoull(optarg, NULL, 10); break;
        case 'W': window_s = atof(optarg); break;
        case 'R': rate = atof(optarg), wish.may_be_refused = wish.is_told_when = true; break;
        case 'F': wish.may_be_refused = true; break;
        case 'S': settle_s = atof(optarg); break;
        case 'A': wish.anew_percent = atoi(optarg); break;
        case 'M': wish.max_tokens = atol(optarg); break;
        default: exit(2);
        }
    }
    sscanf(wish.pace, "chunks=%d", &wish.expected_texts);
}

int main(int count, char **words)
{
    read_options(count, words);
    if (streams < 1)
        return fprintf(stderr, "load: at least one stream\n"), 2;
    stop_on_signals();
    write_request();
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    callers = must(calloc((size_t)streams, sizeof *callers));
    began_all = now_us();
    sight.counts_from = began_all + (uint64_t)(settle_s * 1e6);
    sight.counts_until = seconds > 0 ? began_all + (uint64_t)(seconds * 1e6) : 0;
    for (int index = 0; index < streams; index++) {
        callers[index].fd = -1;
        callers[index].start_at = began_all + (uint64_t)ramp_ms * 1000 * (uint64_t)index / (uint64_t)streams;
    }
    bool is_in_time = run();
    ended_all = now_us();
    for (int index = 0; window_s > 0 && index < streams; index++)
        reset(&callers[index]);
    report(is_in_time);
    return 0;
}
