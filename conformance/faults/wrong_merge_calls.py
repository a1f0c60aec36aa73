"""Merges that are wrong about a call as a whole, in one way each, as targets."""

from contextlib import suppress
from typing import Any

import numpy as np

from conformance.faults.stepwise import F32, Array, Stepwise
from reference.merging import check_well_formed, counted


class WritesTheLseFirst(Stepwise):
    """Output_lse is written before the LSEs are read."""

    def _run(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any,
    ) -> None:
        if output_lse is not None:
            with np.errstate(all="ignore"):
                output_lse[...] = self._log_sum(counted(prefix_lse), counted(suffix_lse))
        super()._run(output, prefix_output, prefix_lse, suffix_output, suffix_lse, None)


class StagesThePrefixInTheResult(Stepwise):
    """Copies a head of the prefix to where the result will be, which may be the suffix."""

    def _run(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any,
    ) -> None:
        if output.size:
            output[:, 0] = prefix_output[:, 0]
        super()._run(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)


class RemembersWeights(Stepwise):
    """Keeps the shares of the first call on arrays of a shape."""

    def __init__(self) -> None:
        """No call was seen yet."""
        super().__init__()
        self.known: dict[tuple[int, ...], tuple[Array, Array]] = {}

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return self.known.setdefault(p.shape, super()._shares(p, s))


class ChangesAnInput(Stepwise):
    """Replaces +inf by -inf where it stands."""

    def _run(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any,
    ) -> None:
        suffix_lse[...] = counted(suffix_lse)
        super()._run(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)


class LaunchesAnEmptyGrid(Stepwise):
    """No token is an error."""

    def _run(self, output: Any, *others: Any) -> None:
        if not output.size:
            raise RuntimeError("invalid configuration argument")
        super()._run(output, *others)


class HasAGridOf16Bits(Stepwise):
    """Leaves tokens beyond a grid's second dimension."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output[:65_535], merged[:65_535], neither[:65_535])


class HasAThreadForEachElement(Stepwise):
    """Leaves elements beyond the threads of a block."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output[..., :1024], merged[..., :1024], neither)


class NeedsAnOutputLse(Stepwise):
    """Output_lse may not be left out."""

    def _run(self, *arguments: Any) -> None:
        if arguments[-1] is None:
            raise TypeError("expected a tensor, got None")
        super()._run(*arguments)


class HasAnotherPathWithoutAnLse(Stepwise):
    """Adds in another order where nobody asks for the LSE: a few bits of the output differ."""

    def _run(self, *arguments: Any) -> None:
        self.without = arguments[-1] is None
        super()._run(*arguments)

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super()._shares(p, s)
        return (np.where(b > 0, F32(1) - b, a), b) if self.without else (a, b)


class ChecksNothing(Stepwise):
    """Returns where it should refuse."""

    def merge_attn_states(self, *arguments: Any, **named: Any) -> None:
        """See Target."""
        with suppress(ValueError):
            check_well_formed(*arguments, **named)
            super().merge_attn_states(*arguments, **named)


class NamesNoArgument(Stepwise):
    """A malformed call is refused without saying what is wrong."""

    def merge_attn_states(self, *arguments: Any, **named: Any) -> None:
        """See Target."""
        try:
            super().merge_attn_states(*arguments, **named)
        except ValueError as error:
            raise ValueError("shapes and types do not fit together") from error


class WritesBeforeItChecks(Stepwise):
    """Makes the result empty, and looks at the call then."""

    def merge_attn_states(self, output: Any, *arguments: Any, **named: Any) -> None:
        """See Target."""
        before = output.copy()
        output[...] = 0
        check_well_formed(output, *arguments, **named)
        output[...] = before
        super().merge_attn_states(output, *arguments, **named)


class ChecksLsesWithTheResult(Stepwise):
    """Looks at the LSEs only where it writes one."""

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        """See Target."""
        try:
            super().merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
        except ValueError as error:
            if output_lse is not None or "_lse" not in str(error):
                raise
