/* The parts of a tokenizer.json that describe steps; read after its model. NULL and null nodes mean "none". Private. */
#ifndef BW_TOK_LOAD_JSON_H
#define BW_TOK_LOAD_JSON_H

#include "tok_internal.h"
#include "tok_json.h"

bw_status bw_tok_read_normalizer(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err);
bw_status bw_tok_read_pre_tokenizer(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err);
bw_status bw_tok_read_decoder(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err);
bw_status bw_tok_read_post_processor(bw_tokenizer *t, const tok_json *j, const tok_json_node *node, bw_err *err);

#endif
