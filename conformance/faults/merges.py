"""List the defects of merges."""

from __future__ import annotations

from conformance.faults import wrong_merge_calls as calls
from conformance.faults import wrong_merge_numbers as numbers
from conformance.faults import wrong_merge_places as places
from conformance.faults.defect import Defect
from conformance.faults.stepwise import Stepwise


def _defect(number: int, merge: type[Stepwise], name: str, sentence: str, source: str = "") -> Defect:
    return Defect(f"merge-{name}", sentence, f"MERGE-{number}", "merge", merge, source)


DEFECTS = (
    _defect(1, numbers.SwapsWeights, "weights-swapped", "each partial has the other's weight"),
    _defect(1, numbers.TakesTheSuffixAlone, "suffix-alone", "the suffix is taken for both"),
    _defect(1, numbers.ReadsLsesToTheBase2, "lses-read-to-base-2", "LSEs are taken to be to the base 2"),
    _defect(1, numbers.HasWeightsOfBf16, "weights-of-bf16", "weights are rounded to bf16"),
    _defect(1, numbers.AddsInBf16, "adds-in-bf16", "products are rounded to bf16 before they are added"),
    _defect(1, numbers.TruncatesToBf16, "truncates-to-bf16", "the result is cut off to bf16, not rounded"),
    _defect(1, numbers.ForgetsTheMaximum, "without-a-maximum", "exponentials are those of the LSEs themselves"),
    _defect(
        1, numbers.SumsBeforeItDivides, "divides-last", "the sum of what is weighted overflows before it is divided"
    ),
    _defect(1, numbers.DropsASmallWeight, "drops-below-11", "a weight below e^-11 is taken for 0"),
    _defect(1, numbers.DropsAWeightJustBelow, "drops-below-12", "a weight below e^-12 is taken for 0"),
    _defect(1, numbers.FlushesSubnormals, "flushes-subnormals", "subnormal results are flushed to 0"),
    _defect(
        1,
        places.UsesOneHeadsWeightForAll,
        "weights-of-head-0",
        "all heads of a token are merged by the first one's LSEs",
    ),
    _defect(1, places.ReadsLsesOfTokensFirst, "lses-tokens-first", "LSEs are read as [T, H]"),
    _defect(2, numbers.GivesTheLseToTheBase2, "lse-to-base-2", "output_lse is to the base 2"),
    _defect(
        2,
        numbers.ScalesTheWholeLseFromBase2,
        "lse-scaled-from-base-2",
        "output_lse is a logarithm to the base 2, scaled",
    ),
    _defect(2, places.LeavesTheLse, "lse-not-written", "output_lse is not written"),
    _defect(
        3,
        numbers.TakesPlusInfinityAsWeight,
        "plus-infinity-has-weight",
        "an LSE of +inf is a weight, so that what is beside it counts for nothing or becomes NaN",
        "vllm 15492",
    ),
    _defect(
        3,
        places.OfWideHeads,
        "plus-infinity-in-wide-heads",
        "an LSE of +inf is a weight in heads of more than 512 elements",
    ),
    _defect(
        4,
        numbers.MultipliesWhatHasNoWeight,
        "multiplies-stale-output",
        "the output of a partial without weight is multiplied by 0, so that NaN and infinities stay",
        "sglang 22291",
    ),
    _defect(
        4,
        places.OfStridedArrays,
        "multiplies-stale-output-if-strided",
        "the output of a partial without weight is multiplied by 0 where the inputs are not contiguous",
    ),
    _defect(
        5,
        numbers.GivesNanWhereNeitherHasWeight,
        "nan-without-keys",
        "two partials without weight give NaN, as -inf less -inf does",
        "vllm 27491",
    ),
    _defect(
        5, numbers.HandsThePrefixThrough, "prefix-without-keys", "two partials without weight give the prefix's output"
    ),
    _defect(5, numbers.KeepsPlusInfinityInTheLse, "plus-infinity-in-the-lse", "output_lse of no key is +inf"),
    _defect(5, places.LeavesWhatIsEmpty, "empty-not-written", "output is not written where neither partial has weight"),
    _defect(
        5,
        places.LeavesWhatIsInPlace,
        "empty-not-written-in-place",
        "output in the prefix's memory is not written where the suffix has no weight",
    ),
    _defect(6, calls.WritesTheLseFirst, "lse-written-first", "output_lse is written before the LSEs are read"),
    _defect(
        6, calls.StagesThePrefixInTheResult, "prefix-staged", "the prefix is copied to output before the suffix is read"
    ),
    _defect(7, calls.NeedsAnOutputLse, "needs-an-lse", "output_lse may not be left out"),
    _defect(
        7,
        calls.HasAnotherPathWithoutAnLse,
        "other-bits-without-an-lse",
        "output has other bits where output_lse is left out",
    ),
    _defect(8, places.IgnoresTheHeadStride, "strides-ignored", "the strides of the inputs' outputs are ignored"),
    _defect(8, places.IgnoresTheRowStrideOfLses, "lse-strides-ignored", "the strides of the inputs' LSEs are ignored"),
    _defect(8, places.RoundsAddressesDown, "addresses-rounded-down", "addresses are rounded down to 16 bytes"),
    _defect(8, places.HasOffsetsOf32Bits, "offsets-of-32-bits", "offsets into the outputs are held in 32 bits"),
    _defect(8, places.HasOffsetsOfLsesOf32Bits, "lse-offsets-of-32-bits", "offsets into the LSEs are held in 32 bits"),
    _defect(9, places.LeavesTheLastElement, "last-element-left", "the last element of a head is not written"),
    _defect(9, places.WritesWholeVectors, "whole-vectors", "the last vector of a head is written beyond its end"),
    _defect(9, calls.LaunchesAnEmptyGrid, "fails-without-tokens", "no token is an error"),
    _defect(9, calls.HasAGridOf16Bits, "tokens-beyond-65535", "tokens from 65,535 on are not written"),
    _defect(
        9, calls.HasAThreadForEachElement, "elements-beyond-1024", "elements of a head from 1,024 on are not written"
    ),
    _defect(9, calls.ChangesAnInput, "input-changed", "-inf is written where the suffix's LSE is +inf"),
    _defect(10, calls.ChecksNothing, "accepts-malformed", "a malformed call returns as if nothing was wrong"),
    _defect(10, calls.ChecksLsesWithTheResult, "lses-unchecked", "LSEs are only checked where output_lse is given"),
    _defect(10, calls.NamesNoArgument, "names-no-argument", "a malformed call is refused without saying what is wrong"),
    _defect(
        10,
        calls.WritesBeforeItChecks,
        "writes-before-it-checks",
        "output is cleared before a malformed call is refused",
    ),
    _defect(11, calls.RemembersWeights, "remembers-weights", "weights are those of the first call of a shape"),
    _defect(
        11,
        places.BranchesOnceAToken,
        "branches-once-a-token",
        "the suffix is taken for every head of a token whose first head has no prefix",
    ),
)
