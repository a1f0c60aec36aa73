"""Define merges, as targets, that handle a call as a whole wrongly, in one way each."""

from contextlib import suppress
from typing import Any

import numpy as np

from conformance.faults.stepwise import F32, Array, Stepwise
from reference.merging import check_well_formed, counted


class WritesTheLseFirst(Stepwise):
    """Write output_lse before the LSEs are read."""

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
    """Copy head 0 of the prefix into output first, which may be the suffix's memory."""

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
    """Keep the shares of the first call for all calls with LSEs of the same shape."""

    def __init__(self) -> None:
        """Start without remembered shares."""
        super().__init__()
        self.known: dict[tuple[int, ...], tuple[Array, Array]] = {}

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        return self.known.setdefault(p.shape, super()._shares(p, s))


class ChangesAnInput(Stepwise):
    """Replace +inf by -inf in the caller's suffix_lse."""

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
    """Raise RuntimeError if output has no element."""

    def _run(self, output: Any, *others: Any) -> None:
        if not output.size:
            raise RuntimeError("invalid configuration argument")
        super()._run(output, *others)


class HasAGridOf16Bits(Stepwise):
    """Leave tokens from 65,535 on unwritten, as a grid's second dimension does."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output[:65_535], merged[:65_535], neither[:65_535])


class HasAThreadForEachElement(Stepwise):
    """Leave elements of a head from 1,024 on unwritten."""

    def _store(self, output: Array, merged: Array, neither: Array) -> None:
        super()._store(output[..., :1024], merged[..., :1024], neither)


class NeedsAnOutputLse(Stepwise):
    """Raise TypeError if output_lse is None."""

    def _run(self, *arguments: Any) -> None:
        if arguments[-1] is None:
            raise TypeError("expected a tensor, got None")
        super()._run(*arguments)


class HasAnotherPathWithoutAnLse(Stepwise):
    """Add in another order if output_lse is None, so that a few bits of output differ."""

    def _run(self, *arguments: Any) -> None:
        self.without = arguments[-1] is None
        super()._run(*arguments)

    def _shares(self, p: Array, s: Array) -> tuple[Array, Array]:
        a, b = super()._shares(p, s)
        return (np.where(b > 0, F32(1) - b, a), b) if self.without else (a, b)


class ChecksNothing(Stepwise):
    """Return without an error where ValueError is due."""

    def merge_attn_states(self, *arguments: Any, **named: Any) -> None:
        """Merge a well-formed call; do nothing in a malformed one."""
        with suppress(ValueError):
            check_well_formed(*arguments, **named)
            super().merge_attn_states(*arguments, **named)


class NamesNoArgument(Stepwise):
    """Refuse a malformed call without the name of an argument."""

    def merge_attn_states(self, *arguments: Any, **named: Any) -> None:
        """Merge the partials. Raises ValueError, without a name, for a malformed call."""
        try:
            super().merge_attn_states(*arguments, **named)
        except ValueError as error:
            raise ValueError("shapes and types do not fit together") from error


class WritesBeforeItChecks(Stepwise):
    """Clear output before the call is checked."""

    def merge_attn_states(self, output: Any, *arguments: Any, **named: Any) -> None:
        """Clear output, check, restore output, and merge. Raises ValueError for a malformed call."""
        before = output.copy()
        output[...] = 0
        check_well_formed(output, *arguments, **named)
        output[...] = before
        super().merge_attn_states(output, *arguments, **named)


class ChecksLsesWithTheResult(Stepwise):
    """Check the LSEs only if output_lse is given."""

    def merge_attn_states(
        self,
        output: Any,
        prefix_output: Any,
        prefix_lse: Any,
        suffix_output: Any,
        suffix_lse: Any,
        output_lse: Any = None,
    ) -> None:
        """Merge the partials. Ignores malformed LSEs if output_lse is None.

        Raises:
            ValueError: if the call is malformed in another way, or output_lse is given.

        """
        try:
            super().merge_attn_states(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
        except ValueError as error:
            if output_lse is not None or "_lse" not in str(error):
                raise
