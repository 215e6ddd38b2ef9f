/* The body of an HTTP answer: what the head says of it, and its bytes without the framing. */
#ifndef BENCH_BODY_H
#define BENCH_BODY_H

#include "common.h"

enum body_state { CHUNK_SIZE, CHUNK_DATA, CHUNK_END, LAST_CHUNK, PLAIN };

struct body {
    bool must_close; /* the connection, after it */
    enum body_state state;
    long left; /* of the chunk, or of a body with a length */
    char size_text[20];
    int size_length;
};

typedef void body_taker(void *whom, const char *bytes, size_t count);

/* From a head that ends in a zero. */
static inline struct body body_of(const char *head)
{
    struct body body = {.state = PLAIN};
    for (const char *line = head, *next; (next = strstr(line, "\r\n")); line = next + 2) {
        if (!strncasecmp(line, "content-length:", 15))
            body.left = atol(line + 15);
        else if (!strncasecmp(line, "transfer-encoding: chunked", 26))
            body.state = CHUNK_SIZE;
        else if (!strncasecmp(line, "connection: close", 17))
            body.must_close = true;
    }
    return body;
}

/* One byte between the data of two chunks. True: it was the last byte of the body. */
static inline bool body_frame(struct body *body, char letter)
{
    if (body->state == CHUNK_SIZE && letter != '\n') {
        if (body->size_length < (int)sizeof body->size_text - 1)
            body->size_text[body->size_length++] = letter;
    } else if (body->state == CHUNK_SIZE) {
        body->size_text[body->size_length] = 0;
        body->size_length = 0;
        body->left = strtol(body->size_text, NULL, 16);
        body->state = body->left ? CHUNK_DATA : LAST_CHUNK;
    } else if (letter == '\n') {
        if (body->state == LAST_CHUNK)
            return true;
        body->state = CHUNK_SIZE;
    }
    return false;
}

/* Hands on what belongs to the body. True: it is whole. */
static inline bool body_take(struct body *body, const char *bytes, size_t count, body_taker *take, void *whom)
{
    const char *end = bytes + count;
    while (bytes < end) {
        if (body->state != CHUNK_DATA && body->state != PLAIN) {
            if (body_frame(body, *bytes++))
                return true;
            continue;
        }
        long piece = end - bytes < body->left ? end - bytes : body->left;
        take(whom, bytes, (size_t)piece);
        bytes += piece;
        body->left -= piece;
        if (!body->left && body->state == PLAIN)
            return true;
        if (!body->left)
            body->state = CHUNK_END;
    }
    return body->state == PLAIN && !body->left;
}

#endif
