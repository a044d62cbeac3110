/* The tokenizer that belongs to a model's files. Private to models/. */
#ifndef TOKENIZER_SOURCE_H
#define TOKENIZER_SOURCE_H

#include "bw_tokenizer.h"
#include "model.h"

/* *tokenizer is NULL, with BW_OK, when the files hold no vocabulary (GGUF's "no_vocab", a directory without
 * tokenizer.json). A chat_template.jinja beside tokenizer.json replaces the template in tokenizer_config.json; the end
 * tokens are generation_config.json's, or config.json's where that names none. */
bw_status bw_source_load_tokenizer(const bw_source *source, bw_tokenizer **tokenizer, bw_err *err);

#endif
