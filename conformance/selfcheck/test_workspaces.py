"""Rows of workspaces: worked out by hand, by the clauses' sentences, and builders that are wrong in one way."""

from typing import Any

import pytest

from conformance.faults import workspaces
from conformance.faults.defect import Defect
from conformance.judge import Judge
from conformance.targets.models import NumpyTarget
from conformance.verdict import Differs, Unsupported
from conformance.workspaces import WorkspaceCase, every_configuration, golden, judge_workspace, violation

EVERY = [*every_configuration("dense"), *every_configuration("sparse")]


@pytest.mark.parametrize(
    ("rows", "case"),
    [
        (65_536, WorkspaceCase("dense", 131_072, 256, 64, 2_048)),
        (66_000, WorkspaceCase("dense", 131_072, 256, 1_000, 2_048)),
        (896, WorkspaceCase("dense", 100, 1, 128, 2_048)),
        (1_000, WorkspaceCase("dense", 1, 1, 250, 1)),
        (65_664, WorkspaceCase("dense", 131_072, 256, 64, 1, 3, 4)),  # 342 times lcm(64, 12)
        (16_384, WorkspaceCase("sparse", 131_072, 8, 64, 2_048)),
        (300, WorkspaceCase("sparse", 131_072, 3, 64, 100)),
        (64, WorkspaceCase("sparse", 131_072, 3, 64, 1)),
        (384, WorkspaceCase("sparse", 131_072, 3, 64, 100, 2, 3)),
    ],
)
def test_workspaces_worked_out_by_hand(rows: int, case: WorkspaceCase) -> None:
    assert golden(case) == rows


def test_the_workspaces_of_every_configuration_keep_every_clause() -> None:
    for case in EVERY:
        assert violation(case, golden(case)) is None
        assert violation(case, golden(case) + 1) and violation(case, golden(case) - 1)


SEEN = [defect for defect in workspaces.DEFECTS if defect.name != "topk-in-32-bits"]  # which raises, and is right here


@pytest.mark.parametrize("defect", SEEN, ids=lambda defect: defect.name)
def test_a_faulty_workspace_is_caught_by_its_clause_in_a_configuration_of_the_gate(defect: Defect) -> None:
    said, target = [], defect.target()
    for case in EVERY:
        try:
            judge_workspace(Judge(target, ["PLAN"]), case)
        except Differs as error:
            said.append(str(error))
    assert any(f"  {defect.clause}: " in text for text in said)


def test_a_target_without_one_of_the_builders_is_unsupported_there() -> None:
    class Dense(NumpyTarget):
        def determine_chunked_prefill_workspace_size(self, builder: Any, *numbers: int) -> int:
            if builder == "sparse":
                raise NotImplementedError("no sparse builder")
            return super().determine_chunked_prefill_workspace_size(builder, *numbers)

    judge_workspace(Judge(Dense(), ["PLAN-20"]), WorkspaceCase("dense", 100, 1, 16, 1))
    with pytest.raises(Unsupported, match="no sparse builder"):
        judge_workspace(Judge(Dense(), ["PLAN-21"]), WorkspaceCase("sparse", 100, 1, 16, 1))


@pytest.mark.parametrize(
    ("says", "case"),
    [
        ("max_model_len is 0; allowed is at least 1", WorkspaceCase("dense", 0, 1, 16, 1)),
        ("max_num_seqs is -1; allowed is at least 1", WorkspaceCase("dense", 1, -1, 16, 1)),
        ("block_size is 0; allowed is at least 1", WorkspaceCase("sparse", 1, 1, 0, 1)),
        ("index_topk is 0; allowed is at least 1", WorkspaceCase("sparse", 1, 1, 16, 0)),
        ("ranks is 0; allowed is at least 1", WorkspaceCase("sparse", 1, 1, 16, 1, 0)),
        ("builder is 'thin'; allowed are 'dense' and 'sparse'", WorkspaceCase("thin", 1, 1, 16, 1)),  # type: ignore[arg-type]
    ],
)
def test_a_configuration_that_cannot_be_is_refused_with_the_figures(says: str, case: WorkspaceCase) -> None:
    with pytest.raises(ValueError, match=says):
        golden(case)
