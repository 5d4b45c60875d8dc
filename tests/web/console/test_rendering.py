"""What is drawn from data: diffs by line numbers, plans as pictures, charts; pure, so they are tested with tables."""

from remit.web.console.charts import Value, draw_bars
from remit.web.console.diffs import Piece, build_rows
from remit.web.console.graphs import HEIGHT, MOST_NODES, WIDTH, GraphBox, lay_out

DIFF = """--- a/x
+++ b/x
@@ -3,3 +3,3 @@
 same
-price = 10
+price = 12
 --- like a header
\\ No newline at end of file
@@ -20 +20,2 @@
-gone
+came
+\tcame too"""


def test_each_line_of_a_diff_has_its_numbers_and_no_line_of_the_file_is_taken_for_a_header() -> None:
    rows = build_rows(DIFF).rows
    told = [(row.kind, row.old, row.new, row.sign, "".join(piece.text for piece in row.pieces)) for row in rows]
    assert told == [
        ("hunk", None, None, "", "@@ -3,3 +3,3 @@"),
        ("same", 3, 3, "", "same"),
        ("removed", 4, None, "−", "price = 10"),
        ("added", None, 4, "+", "price = 12"),
        ("same", 5, 5, "", "--- like a header"),
        ("note", None, None, "", "\\ No newline at end of file"),
        ("hunk", None, None, "", "@@ -20 +20,2 @@"),
        ("removed", 20, None, "−", "gone"),
        ("added", None, 20, "+", "came"),
        ("added", None, 21, "+", "    came too"),
    ]


def test_what_changed_within_a_line_is_marked_and_lines_that_have_little_in_common_are_not() -> None:
    rows = build_rows("@@ -1,1 +1,1 @@\n-price = 10 EUR\n+price = 12 EUR").rows
    assert rows[1].pieces == (Piece("price = 1"), Piece("0", changed=True), Piece(" EUR"))
    assert rows[2].pieces == (Piece("price = 1"), Piece("2", changed=True), Piece(" EUR"))
    other = build_rows("@@ -1,1 +1,1 @@\n-alpha beta\n+x = lambda: 3").rows
    assert [len(row.pieces) for row in other] == [1, 1, 1]


def test_a_long_diff_is_cut_and_says_how_much_is_left_out() -> None:
    text = "@@ -0,0 +1,50 @@\n" + "\n".join(f"+{number}" for number in range(50))
    shown = build_rows(text, left_out=7, most=11)
    assert (len(shown.rows), shown.left_out) == (11, 7 + 40)


def _box(name: str, *after: str) -> GraphBox:
    return GraphBox(name, name, "", "", after)


def test_a_picture_of_a_plan_has_every_box_once_right_of_what_it_waits_for_and_none_on_another() -> None:
    boxes = [
        _box("a"),
        _box("b", "a"),
        _box("c", "a"),
        _box("d", "b", "c"),
        _box("e"),
        _box("f", "d", "e", "not-there"),
    ]
    graph = lay_out(boxes)
    assert graph is not None
    at = {placed.box.name: placed for placed in graph.boxes}
    assert sorted(at) == list("abcdef")
    for box in boxes:
        for before in box.after:
            assert before not in at or at[before].x + WIDTH < at[box.name].x
    corners = [(placed.x, placed.y) for placed in graph.boxes]
    for x, y in corners:
        close = [1 for u, v in corners if abs(u - x) < WIDTH and abs(v - y) < HEIGHT]
        assert len(close) == 1
        assert 0 <= x <= graph.width - WIDTH
        assert 0 <= y <= graph.height - HEIGHT
    assert len(graph.arrows) == 6


def test_what_cannot_be_drawn_is_not_drawn() -> None:
    assert lay_out([]) is None
    assert lay_out([_box("a", "b"), _box("b", "a")]) is None
    assert lay_out([_box(str(number)) for number in range(MOST_NODES)]) is not None
    assert lay_out([_box(str(number)) for number in range(MOST_NODES + 1)]) is None


def test_bars_are_as_high_as_their_share_of_the_highest() -> None:
    chart = draw_bars("x", [Value("one", 10), Value("two", 5, bad=5), Value("none", 0)], "ms")
    one, two, none = chart.bars
    assert (two.height, two.bad_height, none.height) == (one.height / 2, one.height / 2, 0)
    assert one.y + one.height == two.y + two.height == chart.base
    assert "5 failed" in two.text
    assert chart.most == "10 ms"
    assert draw_bars("x", []).bars == ()
