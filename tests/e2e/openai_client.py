"""The unmodified `openai` package against a running worker.

    python tests/e2e/openai_client.py http://127.0.0.1:8080 [--token TOKEN]

Checks completions and chats, streaming and not: texts, finish reasons, usage, n, stop, seed, logprobs, token prompts,
and which exceptions errors become. Exit 0 when all hold; skips (exit 77) when the package is not installed. It makes no
assumption about what the model says.
"""
import argparse
import sys

try:
    import openai
except ImportError:
    print("skipped: the openai package is not installed")
    sys.exit(77)

parser = argparse.ArgumentParser()
parser.add_argument("url")
parser.add_argument("--token", default="none")
args = parser.parse_args()
client = openai.OpenAI(base_url=args.url.rstrip("/") + "/v1", api_key=args.token, max_retries=0, timeout=120)
HELLO = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Name three colours."}]


def models():
    listed = client.models.list().data
    assert len(listed) == 1, listed
    assert client.models.retrieve(listed[0].id).id == listed[0].id
    return listed[0].id


def completion(model):
    whole = client.completions.create(model=model, prompt="The sky is", max_tokens=8, temperature=0, seed=1)
    assert whole.object == "text_completion" and len(whole.choices) == 1
    choice = whole.choices[0]
    assert choice.finish_reason in ("stop", "length"), choice
    assert 0 < whole.usage.completion_tokens <= 8 and whole.usage.prompt_tokens > 0
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens

    stream = client.completions.create(model=model, prompt="The sky is", max_tokens=8, temperature=0, seed=1, stream=True,
                                       stream_options={"include_usage": True})
    text, reasons, usage = "", [], None
    for chunk in stream:
        if chunk.usage:
            usage = chunk.usage
        for c in chunk.choices:
            text += c.text
            if c.finish_reason:
                reasons.append(c.finish_reason)
    assert text == choice.text, (text, choice.text)
    assert reasons == [choice.finish_reason]
    assert usage.completion_tokens == whole.usage.completion_tokens


def several(model):
    answer = client.completions.create(model=model, prompt=["One", "Two words"], n=2, max_tokens=4, seed=3)
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    again = client.completions.create(model=model, prompt=["One", "Two words"], n=2, max_tokens=4, seed=3)
    assert len(again.choices) == 4
    tokens = client.completions.create(model=model, prompt=[5, 6, 7], max_tokens=2)
    assert tokens.usage.prompt_tokens in (3, 4)  # some models put a token before every prompt
    lists = client.completions.create(model=model, prompt=[[5, 6], [7]], max_tokens=1)
    assert len(lists.choices) == 2


def stop(model):
    base = client.completions.create(model=model, prompt="a b c d e f a b c d", max_tokens=6, temperature=0).choices[0].text
    letter = next((c for c in base[1:] if not c.isspace()), None)
    if letter:
        cut = client.completions.create(model=model, prompt="a b c d e f a b c d", max_tokens=6, temperature=0, stop=letter)
        assert letter not in cut.choices[0].text and cut.choices[0].finish_reason == "stop", cut
        assert base.startswith(cut.choices[0].text)


def logprobs(model):
    answer = client.completions.create(model=model, prompt="The sky is", max_tokens=3, temperature=0, logprobs=2, echo=True)
    lp = answer.choices[0].logprobs
    n = len(lp.tokens)
    assert n == len(lp.token_logprobs) == len(lp.top_logprobs) == len(lp.text_offset) and n > 3
    assert lp.token_logprobs[0] is None and all(x <= 0 for x in lp.token_logprobs[1:])
    assert answer.choices[0].text.startswith("The sky is")

    chat = client.chat.completions.create(model=model, messages=HELLO, max_tokens=3, temperature=0, logprobs=True,
                                          top_logprobs=3)
    content = chat.choices[0].logprobs.content
    assert 1 <= len(content) <= 3
    for token in content:
        assert token.logprob <= 0 and 1 <= len(token.top_logprobs) <= 3
        assert bytes(token.bytes).decode("utf-8", "replace") is not None
        best = token.top_logprobs[0]
        assert best.logprob >= token.logprob - 1e-4


def chat(model):
    whole = client.chat.completions.create(model=model, messages=HELLO, max_tokens=12, temperature=0)
    message = whole.choices[0].message
    assert message.role == "assistant" and message.content is not None
    stream = client.chat.completions.create(model=model, messages=HELLO, max_tokens=12, temperature=0, stream=True,
                                            stream_options={"include_usage": True})
    text, reason, usage, role = "", None, None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for c in chunk.choices:
            role = c.delta.role or role
            text += c.delta.content or ""
            reason = c.finish_reason or reason
    assert role == "assistant" and text == message.content, (text, message.content)
    assert reason == whole.choices[0].finish_reason
    assert usage.total_tokens == whole.usage.total_tokens
    parts = client.chat.completions.create(model=model, max_completion_tokens=2, n=2, messages=[
        {"role": "user", "content": [{"type": "text", "text": "Say"}, {"type": "text", "text": " hi"}]}])
    assert len(parts.choices) == 2


def errors(model):
    for call, kind in (
        (lambda: client.completions.create(model=model, prompt="a", temperature=9), openai.BadRequestError),
        (lambda: client.chat.completions.create(model=model, messages=[]), openai.BadRequestError),
        (lambda: client.completions.create(model=model, prompt="word " * 200000), openai.BadRequestError),
        (lambda: client.models.retrieve("no-such-model"), openai.NotFoundError),
    ):
        try:
            call()
        except kind as error:
            assert error.body and error.body["message"], error
        else:
            raise AssertionError("no %s" % kind.__name__)


def early_end(model):
    stream = client.completions.create(model=model, prompt="Count", max_tokens=500, stream=True)
    next(iter(stream))
    stream.close()  # the worker must cancel; the next request shows it still answers
    completion(model)


name = models()
for test in (completion, several, stop, logprobs, chat, errors, early_end):
    test(name)
    print("ok", test.__name__)
print("all hold")
