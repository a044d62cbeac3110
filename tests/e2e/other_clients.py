"""Packages that people talk to OpenAI's API with, unmodified, against a running worker: litellm, langchain-openai, llm.

    python tests/e2e/other_clients.py http://127.0.0.1:8080

Each chats with tools offered and tools in the history, with a list of parts, streaming and not. The worker's model must
have a chat template that shows tools. It makes no assumption about what the model says. A package that is not installed
is said on a line "SKIPPED: ..."; exit 0 when all others hold. Whatever a package wants from another address than 127.0.0.1
is refused, and is an error.
"""
import importlib
import os
import socket
import sys
import tempfile

home = tempfile.TemporaryDirectory()
os.environ.update(HOME=home.name, LLM_USER_PATH=home.name, LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_TELEMETRY="False",
                  LANGSMITH_TRACING="false", LANGCHAIN_TRACING_V2="false", OPENAI_API_KEY="none", NO_PROXY="*")
url = sys.argv[1].rstrip("/") + "/v1"
outside = []


def only_here(host, *rest, resolve=socket.getaddrinfo, **named):
    if host not in ("127.0.0.1", "localhost", "::1", None):
        outside.append(host)
        raise OSError("this test talks to nobody else: %r" % (host,))
    return resolve(host, *rest, **named)


socket.getaddrinfo = only_here

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city.", "parameters": CITY}}]
PARTS = [{"type": "text", "text": "How is it"}, {"type": "text", "text": " in Rome?"}]
# As OpenAI's own documentation has it: no content beside the call, arguments as JSON in a string.
HISTORY = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": PARTS},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\": \"Rome\"}"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "{\"sky\": \"clear\"}"},
]


def same(text, other):
    assert isinstance(text, str) and text == other, (text, other)


def openai():
    import openai as package
    client = package.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=120)
    asked = dict(model="m", messages=HISTORY, tools=TOOLS, max_tokens=8, temperature=0)
    whole = client.chat.completions.create(**asked)
    assert whole.choices[0].finish_reason in ("stop", "length") and whole.usage.prompt_tokens > 30
    streamed = "".join(c.choices[0].delta.content or "" for c in client.chat.completions.create(stream=True, **asked)
                       if c.choices)
    same(whole.choices[0].message.content, streamed)
    # what the package itself gave goes back as it came
    asked["messages"] = HISTORY + [whole.choices[0].message, {"role": "user", "content": "And now?"}]
    assert client.chat.completions.create(**asked).usage.prompt_tokens > whole.usage.prompt_tokens


def litellm():
    import litellm as package
    asked = dict(model="openai/m", api_base=url, api_key="none", messages=HISTORY, tools=TOOLS, max_tokens=8, temperature=0,
                 num_retries=0, timeout=120)
    whole = package.completion(**asked)
    assert whole.usage.prompt_tokens > 30 and 0 < whole.usage.completion_tokens <= 8
    streamed = "".join(c.choices[0].delta.content or "" for c in package.completion(stream=True, **asked))
    same(whole.choices[0].message.content, streamed)
    asked["messages"] = HISTORY + [whole.choices[0].message.model_dump(), {"role": "user", "content": "And now?"}]
    assert package.completion(**asked).usage.prompt_tokens > whole.usage.prompt_tokens
    try:
        package.completion(**{**asked, "temperature": 9})
    except package.BadRequestError as error:
        assert "temperature" in str(error), error
    else:
        raise AssertionError("a temperature of 9 was taken")


def langchain_openai():
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_openai import ChatOpenAI
    chat = ChatOpenAI(base_url=url, api_key="none", model="m", max_tokens=8, temperature=0, max_retries=0, timeout=120)
    history = [SystemMessage("You are brief."), HumanMessage(PARTS),
               AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Rome"}, "id": "call_1"}]),
               ToolMessage("{\"sky\": \"clear\"}", tool_call_id="call_1")]
    for asked in (chat, chat.bind_tools(TOOLS)):
        whole = asked.invoke(history)
        assert whole.usage_metadata["input_tokens"] > 20, whole
        same(whole.content, "".join(c.content for c in asked.stream(history)))
    assert chat.batch([history, history])[1].content == chat.invoke(history).content


def llm():
    import llm as package
    from llm.default_plugins.openai_models import Chat
    from llm.parts import Message, TextPart, ToolCallPart, ToolResultPart
    model = Chat("m", key="none", model_name="m", api_base=url, supports_tools=True)
    messages = [Message(role="system", parts=[TextPart(text="You are brief.")]),
                Message(role="user", parts=[TextPart(text="How is it in Rome?")]),
                Message(role="assistant", parts=[ToolCallPart(name="weather", arguments={"city": "Rome"},
                                                              tool_call_id="call_1")]),
                Message(role="tool", parts=[ToolResultPart(name="weather", output="clear", tool_call_id="call_1")])]
    tool = package.Tool(name="weather", description="The weather of a city.", input_schema=CITY, implementation=len)
    asked = dict(messages=messages, tools=[tool], options=dict(max_tokens=8, temperature=0))
    whole = model.prompt(stream=False, **asked)
    same(whole.text(), "".join(model.prompt(stream=True, **asked)))
    assert whole.usage().input > 20, whole.usage()
    talk = model.conversation()
    first = talk.prompt("Hello", max_tokens=4, temperature=0).text()
    second = talk.prompt("And now?", max_tokens=4, temperature=0)
    assert isinstance(first, str) and isinstance(second.text(), str)


for name, test in (("openai", openai), ("litellm", litellm), ("langchain_openai", langchain_openai), ("llm", llm)):
    try:
        importlib.import_module(name)
    except ImportError as error:
        print("SKIPPED: the package %s is not installed (%s)" % (name, error))
        continue
    test()
    print("ok", name)
assert not outside, "other addresses were asked for: %s" % sorted(set(outside))
print("all hold")
