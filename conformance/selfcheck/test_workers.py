"""How many workers, on which devices, with how much memory: the plan, which asks no device."""

import pytest

from conformance.running.workers import CONTEXT, GIB, Demand, Gpu, Plan, Supply, plan

CASE = 12 * GIB
GPU_CODE = Demand(CASE)


def gpus(*free: float, sm: str = "sm_100") -> tuple[Gpu, ...]:
    return tuple(Gpu(index, "B200", sm, int(gib * GIB), 180 * GIB) for index, gib in enumerate(free))


def places(planned: Plan) -> list[int]:
    return [gpu.index for gpu in planned.devices if gpu]


@pytest.mark.parametrize(
    ("cpus", "free", "workers"),
    [
        (1, [], 1),
        (16, [], 16),
        (16, [139], 10),  # 10 times 13 GiB
        (4, [139], 4),
        (16, [13], 1),
        (16, [12.9], 1),  # in which the largest cases are not judged
        (16, [0], 1),
        (224, [178, 178], 26),
        (16, [178, 178], 16),
        (224, [178] * 4, 52),
        (224, [178] * 8, 104),
        (64, [178] * 8, 64),
        (3, [178] * 8, 3),
        (1, [178] * 8, 1),
        (64, [30, 70], 7),
        (64, [0, 70], 5),  # the first one is somebody else's
        (64, [0, 0], 2),
        (64, [12, 1, 5, 0], 4),
        (2, [12, 1, 5, 0], 2),
    ],
)
def test_as_many_workers_as_there_are_cpus_and_room_for(cpus: int, free: list[float], workers: int) -> None:
    assert plan(Supply(cpus, gpus=gpus(*free)), GPU_CODE).workers == workers


@pytest.mark.parametrize(
    ("cpus", "free", "dealt"),
    [
        (5, [139], [0, 0, 0, 0, 0]),
        (5, [139, 139], [0, 1, 0, 1, 0]),
        (6, [139] * 4, [0, 1, 2, 3, 0, 1]),
        (10, [139] * 8, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]),
        (3, [139] * 8, [0, 1, 2]),
        (9, [27, 60], [0, 1, 0, 1, 1, 1]),  # the smaller one is full after two
        (9, [5, 30, 5, 30], [1, 3, 1, 3]),
        (9, [5, 5, 5], [0, 1, 2]),
    ],
)
def test_worker_i_is_on_device_i_mod_g_as_long_as_each_has_room(cpus: int, free: list[float], dealt: list[int]) -> None:
    assert places(plan(Supply(cpus, gpus=gpus(*free)), GPU_CODE)) == dealt


def test_a_device_without_room_is_left_to_whoever_fills_it_unless_no_other_has_room() -> None:
    assert places(plan(Supply(16, gpus=gpus(5, 14)), GPU_CODE, asked=3)) == [1, 1, 1]
    assert places(plan(Supply(16, gpus=gpus(5, 12)), GPU_CODE, asked=3)) == [0, 1, 0]


def test_a_number_that_is_asked_for_is_dealt_in_turn_whether_there_is_room_or_not() -> None:
    for free in ([139, 139], [14, 14], [1, 1]):
        planned = plan(Supply(16, gpus=gpus(*free)), GPU_CODE, asked=3)
        assert places(planned) == [0, 1, 0]
    assert "workers: 3, as asked (16 CPUs, 2 GPUs with room for 0 of 13.0 GiB)" in planned.lines()[0]


@pytest.mark.parametrize("asked", [None, 1, 2, 5, 12])
@pytest.mark.parametrize("free", [[139], [139, 50], [13.5, 26], [30, 178, 0], [178] * 8])
def test_the_shares_of_a_device_and_their_contexts_fit_into_what_is_free(free: list[float], asked: int | None) -> None:
    planned = plan(Supply(16, gpus=gpus(*free)), GPU_CODE, asked)
    for gpu, limit in planned.limits.items():
        sharing = planned.devices.count(gpu)
        assert sharing * (limit + CONTEXT) <= gpu.free < sharing * (limit + CONTEXT + 1)
        assert asked or limit >= CASE
    assert set(planned.limits) == set(planned.devices)


def test_a_share_is_never_nothing_which_libraries_take_for_no_limit() -> None:
    assert set(plan(Supply(4, gpus=gpus(0.5)), GPU_CODE, asked=4).limits.values()) == {1}


def test_where_the_largest_cases_do_not_fit_the_plan_says_so() -> None:
    why = plan(Supply(16, gpus=gpus(6, 4)), GPU_CODE).why
    assert why == (
        "2 (16 CPUs, 2 GPUs with room for 0 of 13.0 GiB); 12.0 GiB, which the largest cases take, is more than "
        "3.0 GiB: those that do not fit are not judged"
    )
    assert "not judged" not in plan(Supply(16, gpus=gpus(14)), GPU_CODE).why
    assert "not judged" in plan(Supply(16, gpus=gpus(14)), GPU_CODE, asked=2).why


@pytest.mark.parametrize(
    ("supply", "demand", "why"),
    [
        (Supply(16, gpus=gpus(112)), GPU_CODE, "8 (16 CPUs, 1 GPU with room for 8 of 13.0 GiB)"),
        (Supply(1), Demand(), "1 (1 CPU)"),
        (Supply(2, why_no_gpu="no driver"), GPU_CODE, "2 (2 CPUs, no GPU: no driver)"),
        (Supply(2, gpus=gpus(112)), Demand(), "2 (2 CPUs)"),
        (Supply(8), Demand(most_workers=3), "3 (8 CPUs, a target bears at most 3)"),
        (Supply(8, gpus=gpus(112)), Demand(CASE, most_workers=9), "8 (8 CPUs, 1 GPU with room for 8 of 13.0 GiB)"),
        (Supply(8, host_free=64 * GIB), Demand(), "8 (8 CPUs)"),
        (Supply(8, host_free=3 * GIB), Demand(), "3 (8 CPUs, 3.0 GiB of the host's memory, 1.0 GiB each)"),
        (Supply(8, host_free=0), Demand(), "1 (8 CPUs, 0 bytes of the host's memory, 1.0 GiB each)"),
        (
            Supply(16, host_free=10 * GIB, gpus=gpus(112)),
            GPU_CODE,
            "2 (16 CPUs, 1 GPU with room for 8 of 13.0 GiB, 10.0 GiB of the host's memory, 4.0 GiB each)",
        ),
        (
            Supply(64, gpus=gpus(2, 70)),
            GPU_CODE,
            "5 (64 CPUs, 2 GPUs with room for 5 of 13.0 GiB, GPU 0 left out, as it has no room)",
        ),
    ],
)
def test_the_plan_says_why(supply: Supply, demand: Demand, why: str) -> None:
    assert plan(supply, demand).why == why


def test_only_devices_of_a_required_architecture_take_part() -> None:
    mixed = tuple(Gpu(i, "", sm, 70 * GIB, 80 * GIB) for i, sm in enumerate(["sm_90", "sm_100", "sm_90", "sm_100"]))
    planned = plan(Supply(4, gpus=mixed), Demand(CASE, architectures=frozenset({"sm_100"})))
    assert places(planned) == [1, 3, 1, 3]
    assert planned.why == "4 (4 CPUs, 2 GPUs not sm_100, 2 GPUs with room for 10 of 13.0 GiB)"
    assert places(plan(Supply(4, gpus=mixed), GPU_CODE)) == [0, 1, 2, 3]
    without = plan(Supply(4, gpus=mixed), Demand(CASE, architectures=frozenset({"sm_120"})))
    assert (without.devices, without.why) == ((None,) * 4, "4 (4 CPUs, 4 GPUs not sm_120)")


def test_a_target_that_is_no_gpu_code_gets_no_device() -> None:
    planned = plan(Supply(3, gpus=gpus(139)), Demand())
    assert planned.devices == (None, None, None) and not planned.limits


def test_the_lines_name_each_device_its_workers_and_their_share() -> None:
    assert plan(Supply(3, gpus=gpus(40, 20)), GPU_CODE).lines()[1:] == [
        "  GPU 0, B200, sm_100, 40.0 GiB of 180.0 GiB free: gw0 gw2, up to 19.0 GiB each",
        "  GPU 1, B200, sm_100, 20.0 GiB of 180.0 GiB free: gw1, up to 19.0 GiB each",
    ]


WITH_ROOMS = Demand(21 * GIB, 3 * GIB)


@pytest.mark.parametrize(
    ("cpus", "free", "workers", "rooms"),
    [
        (16, 139, 8, 2),
        (224, 178, 8, 0),
        (5, 80, 5, 1),
        (16, 44, 6, 1),
        (16, 27, 2, 1),
        (16, 22, 1, 0),
        (16, 21, 1, 0),  # in which the largest cases are not judged
        (6, 139, 6, 0),
        (7, 139, 7, 1),
    ],
)
def test_workers_of_a_device_share_rooms_for_the_largest_cases(cpus: int, free: int, workers: int, rooms: int) -> None:
    planned = plan(Supply(cpus, gpus=gpus(free)), WITH_ROOMS)
    (gpu,) = planned.limits
    assert (planned.workers, planned.rooms[gpu].count if planned.rooms else 0) == (workers, rooms)
    if rooms:
        large, limit = planned.rooms[gpu].nbytes, planned.limits[gpu]
        assert limit == 3 * GIB and large >= 21 * GIB
        assert workers * CONTEXT + rooms * large + (workers - rooms) * limit <= gpu.free


def test_the_lines_say_what_rooms_there_are() -> None:
    planned = plan(Supply(16, gpus=gpus(139)), WITH_ROOMS)
    assert planned.why == "8 (16 CPUs, 1 GPU with room for 8 of 4.0 GiB)"
    assert planned.lines()[1].endswith("gw7, up to 3.0 GiB each, 2 rooms of 56.5 GiB for the largest cases")
