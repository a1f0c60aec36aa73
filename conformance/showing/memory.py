"""How arguments lie in memory, in words."""

from __future__ import annotations

from fixtures.cases import Arrangement
from fixtures.write_cases import WriteArrangement

WORDS = {
    "cache_block_slack": "{:,} elements between blocks of the cache",
    "cache_record_slack": "{:,} elements between records of the cache",
    "table_row_slack": "{:,} entries between rows of the table",
    "dst_row_slack": "{:,} elements between rows of dst",
    "kv_c_row_slack": "{:,} elements between rows of kv_c",
    "k_pe_row_slack": "{:,} elements between rows of k_pe",
    "cache_shift": "the cache {:,} bytes off a boundary of 256",
    "dst_shift": "dst {:,} bytes off a boundary of 256",
    "int_shift": "the other arrays {:,} bytes off a boundary of 256",
    "input_shift": "kv_c and k_pe {:,} bytes off a boundary of 256",
    "k_pe_shift": "k_pe {:,} bytes more",
    "slot_shift": "slot_mapping {:,} bytes off a boundary of 256",
    "scale_shift": "scale {:,} bytes off a boundary of 256",
    "spare_requests": "{:,} entries more than requests",
    "spare_rows": "{:,} rows of dst more than T",
    "spare_tokens": "{:,} rows of kv_c and k_pe more than tokens",
    "spare_kv_c": "{:,} rows of kv_c more than of k_pe",
    "slots_outermost": "the cache with slots outermost",
    "table_is_broadcast": "one row of the table for all requests",
    "scale_is_scalar": "a scale without a dimension",
    "cache_strides": "strides {} of the cache's blocks and records",
    "input_strides": "strides {} of the rows of kv_c and k_pe",
}


def arrangement_in_words(how: Arrangement | WriteArrangement) -> str:
    """What is not contiguous."""
    return "; ".join(WORDS[name].format(value) for name, value in vars(how).items() if value) or "contiguous"
