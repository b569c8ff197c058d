"""What the compiler made of the kernels: counted from the assembly, for GPUs that are not here."""

from __future__ import annotations

import json

import pytest

from pagedlab import cli
from pagedlab_kernels import compile_report, kernel_source
from pagedlab_kernels.inside import assembly
from pagedlab_kernels.inside.report import occupancy

PTX = """\
	.loc	1 10 20                         // kernels.py:10:20
	// begin inline asm
	mov.u32 	%r1, %tid.x;
	.loc	1 11 20                         // kernels.py:11:20
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	// end inline asm
	ld.global.L1::evict_first.b16 { %rs1 }, [ %rd1 + 0 ];
	.loc	2 43 17                         // standard.py:43:17 @[ kernels.py:11:8 ]
	cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;
	cp.async.commit_group;
	.loc	1 12 17                         // kernels.py:12:17
	cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x4, %r2;
	cp.async.commit_group;
	cp.async.wait_group 	1;
$L__BB0_1:
"""


def test_instructions_belong_to_the_line_that_called_for_them() -> None:
    code = list(assembly.instructions(PTX, "kernels.py"))
    assert [line for line, _ in code] == [10, 10, 10, 11, 11, 12, 12, 12]
    assert [(load["line"], load["width"], load["asynchronous"]) for load in assembly.loads(code)] == [
        (10, 2, False),
        (10, 16, False),
        (11, 16, True),
        (12, 4, True),
    ]
    assert [assembly.in_flight(code, lines) for lines in ({11}, {12}, {11, 12})] == [0, 1, 1]


@pytest.mark.parametrize(
    ("target", "warps", "registers", "shared", "programs", "limit"),
    [
        ("sm_80", 4, 32, 0, 16, "warps"),
        ("sm_80", 4, 128, 0, 4, "registers"),  # 65,536 / (128 * 32 * 4)
        ("sm_80", 1, 16, 0, 32, "programs"),
        ("sm_90", 8, 64, 113 * 1024, 2, "shared memory"),
        ("sm_75", 4, 255, 30 * 1024, 2, "registers"),
        ("gfx942", 4, 128, 0, 4, "registers"),
    ],
)
def test_occupancy_is_what_runs_out_first(target, warps, registers, shared, programs, limit) -> None:
    found = occupancy(target, warps, registers, shared)
    assert (found.programs, found.limit) == (programs, limit)


@pytest.mark.usefixtures("triton")
@pytest.mark.slow
class TestOneKernel:
    def test_the_look_up_takes_pipeline_stages(self) -> None:
        """With the twin's stages the paged kernel keeps fewer copies in flight."""
        (twin,) = compile_report(["decode-twin"], ["sm_90"], num_stages=3)
        few, enough = (
            compile_report(["decode"], ["sm_90"], num_stages=stages)[0].copies_in_flight for stages in (3, 5)
        )
        assert few < twin.copies_in_flight <= enough

    def test_a_listing_has_every_source_line_beside_its_instructions(self) -> None:
        (found,) = compile_report(["merge"], ["sm_80"], listing=True)
        source = kernel_source().splitlines()
        assert all(line.text == source[line.number - 1].strip() for line in found.listing)
        reads = next(line for line in found.listing if line.text.startswith("part_lse = tl.load"))
        assert any("ld.global" in code for code in reads.ptx) and any("LDG" in code for code in reads.sass)

    def test_an_edited_kernel_is_compiled_in_its_place(self) -> None:
        wide = "+ dim[None, :], mask=real, other"
        narrow = kernel_source().replace(wide, wide.replace("dim[None, :]", "dim[None, :] * 3"))
        (found,) = compile_report(["decode"], ["sm_80"], source=narrow)
        assert {load.width for load in found.cache_loads} == {2}

    def test_a_refusal_is_a_row(self, capsys) -> None:
        found = compile_report(["decode"], ["sm_80", "sm_90"], head_dim=4096)
        assert all("no tile is wide enough for a head of 4096" in str(each.refusal) for each in found)
        broken = kernel_source().replace("tl.dot(q,", "tl.dote(q,")
        merge, decode = compile_report(["merge", "decode"], ["gfx942"], source=broken)
        assert merge.refusal is None and "dote" in str(decode.refusal)
        (dead,) = compile_report(["merge"], ["sm_80"], source="import os; os.abort()")
        assert "SIGABRT" in str(dead.refusal)
        (gone,) = compile_report(["merge"], ["sm_80"], source="raise SystemExit")
        assert "before its work was done" in str(gone.refusal)

    def test_the_command_prints_a_table_or_json(self, capsys) -> None:
        asked = ["compile", "--kernel", "decode", "--target", "sm_80", "--target", "gfx942"]
        assert cli.main(asked) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[:2] for line in lines[3:5]] == [["decode", "sm_80"], ["decode", "gfx942"]]
        assert cli.main([*asked, "--json"]) == 0
        first, second = json.loads(capsys.readouterr().out)
        assert first["copies_in_flight"] > second["copies_in_flight"] == 0
        assert first["occupancy"]["programs"] >= 1
        assert cli.main([*asked, "--dtype", "float32", "--head-dim", "512"]) == 0
        assert "decode for gfx942 was refused: ValueError: no tile" in capsys.readouterr().out

    def test_a_head_that_no_target_takes_is_one_error(self, capsys) -> None:
        assert cli.main(["compile", "--kernel", "decode", "--target", "sm_80", "--head-dim", "99999"]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1
        assert "--head-dim 99999: ValueError: no tile is wide enough for a head of 99999 in float16" in err


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="kernels must be among decode, .*, got 'encode'"):
        compile_report(["encode"])
    with pytest.raises(ValueError, match="targets must be among sm_75, .*, got 'sm_1'"):
        compile_report(targets=["sm_1"])


def test_the_command_says_where_triton_is_missing(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("pagedlab_kernels.inside.child.importlib.util.find_spec", lambda name: None)
    assert cli.main(["compile"]) == 1
    assert "triton is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--num-stages", "65"], ["--head-dim", "0"], ["--group", "9" * 5000]])
def test_a_number_that_no_kernel_has_is_one_line(arguments: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["compile", *arguments])
    out, err = capsys.readouterr()
    assert (exit_.value.code, out, err.count("\n")) == (2, "", 1)
    assert f"{arguments[0]}: must be a whole number from 1 to " in err
