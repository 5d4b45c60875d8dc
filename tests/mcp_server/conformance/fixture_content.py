"""What the suite wants to find on a server beside its own tools: tools, resources and prompts of every kind of content.

Names and texts are the suite's. They are put on the server that the factory built, so that what is under test is ours:
the transport, the versions, the checks of headers and origins, errors, progress.
"""

import base64
import struct
import zlib
from typing import Any, Final

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.resources import BinaryResource, TextResource
from mcp.types import AudioContent, CallToolResult, EmbeddedResource, ImageContent, TextContent, TextResourceContents


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


# One red pixel, and one silent sample.
PNG: Final = b"\x89PNG\r\n\x1a\n" + b"".join(
    (
        _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)),
        _chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")),
        _chunk(b"IEND", b""),
    )
)
_FORMAT: Final = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
WAV: Final = b"RIFF" + struct.pack("<I", 37) + b"WAVEfmt " + _FORMAT + b"data" + struct.pack("<IB", 1, 128)


def add_content(server: MCPServer[Any]) -> None:
    _add_tools(server)
    _add_progress(server)
    _add_resources(server)
    _add_prompts(server)


def _add_tools(server: MCPServer[Any]) -> None:
    @server.tool()
    def test_simple_text() -> CallToolResult:
        """Plain text."""
        return _result(_text("This is a simple text response for testing."))

    @server.tool()
    def test_image_content() -> CallToolResult:
        """A picture."""
        return _result(_image())

    @server.tool()
    def test_audio_content() -> CallToolResult:
        """A sound."""
        return _result(AudioContent(type="audio", data=base64.b64encode(WAV).decode(), mime_type="audio/wav"))

    @server.tool()
    def test_embedded_resource() -> CallToolResult:
        """A resource inside the answer."""
        return _result(_embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))

    @server.tool()
    def test_multiple_content_types() -> CallToolResult:
        """All of them."""
        resource = _embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
        return _result(_text("Multiple content types test:"), _image(), resource)

    @server.tool()
    def test_error_handling() -> CallToolResult:
        """Always fails."""
        raise ToolError("This tool intentionally returns an error for testing")


def _add_progress(server: MCPServer[Any]) -> None:
    @server.tool()
    async def test_tool_with_progress(context: Context[Any, Any]) -> str:
        """Tells how far it is."""
        for done in (0, 50, 100):
            await context.report_progress(done, 100)
            await anyio.sleep(0.05)
        return "Progress was told."


def _add_resources(server: MCPServer[Any]) -> None:
    text = "This is the content of the static text resource."
    server.add_resource(TextResource(uri="test://static-text", name="Text", description="A static text.", text=text))
    server.add_resource(
        BinaryResource(
            uri="test://static-binary", name="Picture", description="A picture.", mime_type="image/png", data=PNG
        )
    )

    @server.resource("test://template/{id}/data", mime_type="application/json", description="Data by id.")
    def data(id: str) -> str:  # noqa: A002 - the suite's name
        return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


def _add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt(description="A simple prompt.")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="A prompt with arguments.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="A prompt with a resource in it.")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite's name
        resource = _embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @server.prompt(description="A prompt with a picture in it.")
    def test_prompt_with_image() -> list[UserMessage]:
        return [UserMessage(_image()), UserMessage("Please analyze the image above.")]


def _result(*content: Any) -> CallToolResult:
    return CallToolResult(content=list(content))


def _text(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def _image() -> ImageContent:
    return ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png")


def _embedded(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))
