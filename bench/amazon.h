/* Amazon's binary event stream, as Bedrock writes it: a frame around each JSON document. */
#ifndef BENCH_AMAZON_H
#define BENCH_AMAZON_H

#include "common.h"

/* One frame, as one chunk of the body. */
void amazon_add(struct buffer *output, const char *type, const char *payload, size_t length);

/* The document in base64, inside a frame of the type `chunk`. */
void amazon_add_chunk(struct buffer *output, const char *document, size_t length);

#endif
