"""What an agent reads over MCP: next steps that name its own tools, and what a person can do at a terminal."""

from remit.contracts.services.plans import ProposalView
from remit.mcp_server.summaries import summarise_proposal
from tests.mcp_server.mcp_office import Desked, Talk, words_of

UNKNOWN = "0192f0c1-2345-7abc-8def-0123456789ab"


def test_a_malformed_plan_is_compared_with_the_schema_of_the_tool(desked: Desked, talk: Talk) -> None:
    plan, _ = desked.plan()
    for name in ("propose_plan", "preview_plan"):
        told = talk.refused(name, plan={**plan, "surprise": 1})
        assert "remit schema" not in told["next_step"]
        assert "schema of `plan` in the tool propose_plan" in told["next_step"]
    other = talk.refused("propose_plan", plan={"task_id": "t", "capability_id": "FILE_COPY", "inputs": {}})
    assert "remit " not in other["next_step"]


def test_a_wrong_argument_is_compared_with_the_schema_of_its_tool(talk: Talk) -> None:
    told = talk.refused("plan_status", proposal_id=UNKNOWN, wait_seconds=99)
    assert "remit schema" not in told["next_step"]


def test_an_unknown_proposal_is_named_by_its_field(talk: Talk) -> None:
    told = talk.refused("plan_status", proposal_id=UNKNOWN)
    assert "proposal_id" in told["next_step"]
    assert "`remit propose`" not in told["next_step"]


def test_a_rollback_that_needs_a_person_names_the_command(desked: Desked, talk: Talk) -> None:
    plan, file = desked.plan()
    proposal = talk.ok("propose_plan", plan=plan)["proposal_id"]
    desked.yes(proposal)
    envelope = talk.ok("apply_plan", proposal_id=proposal)["envelope_id"]
    file.write_text("theirs\n")
    result = talk.call("undo_plan", proposal_id=proposal)
    assert result.is_error
    assert f"remit rollback {envelope} --force" in words_of(result)


def test_a_withdrawn_plan_and_one_of_a_revoked_token_have_words_of_their_own(desked: Desked, talk: Talk) -> None:
    plan, _ = desked.plan()
    proposal = talk.ok("propose_plan", plan=plan)["proposal_id"]
    result = talk.call("cancel_plan", proposal_id=proposal)
    assert "The plan was withdrawn. Nothing was changed." in words_of(result)
    assert "revoked" not in words_of(result)
    revoked = ProposalView.from_tree({**(result.structured_content or {}), "reason": "the token was revoked by os:ann"})
    assert "token" in summarise_proposal(revoked)
    assert "withdrawn" not in summarise_proposal(revoked)


def test_two_sentences_of_a_summary_are_separated(desked: Desked, talk: Talk) -> None:
    plan, file = desked.plan()
    proposal = talk.ok("propose_plan", plan=plan)["proposal_id"]
    desked.yes(proposal)
    file.write_text("theirs\n")
    words = words_of(talk.call("apply_plan", proposal_id=proposal))
    assert "only Ask" not in words
    assert "people only. Ask" in words or "next: Ask" in words
