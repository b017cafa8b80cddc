"""Values parsed from a log in Megatron's format."""

import base64
import io
import math
from pathlib import Path

from PIL import Image

from tasks.megatron.describe import describe_training
from tasks.megatron.logs import TrainingLog, logs_of, read_training_log, step_in, tail
from tasks.megatron.plot import curves

SAMPLE = Path(__file__).parent / "sample-log.txt"
PAGE = Path("/data/reports/training/qwen/index.html")


def test_losses_validation_speed_and_checkpoints_are_read():
    log = read_training_log([SAMPLE])
    assert [entry.step for entry in log.iterations] == [10, 20, 30]
    assert [entry.loss for entry in log.iterations] == [3.604611, 3.501, 3.458849]
    assert [entry.seconds for entry in log.iterations] == [41.2004, 20.0, 30.0]
    assert [entry.tflops for entry in log.iterations] == [61.3, 126.0, 124.0]
    assert (log.iterations[0].skipped, log.iterations[2].nan, log.iterations[2].of) == (1, 2, 1000)
    assert log.validation == ((30, 3.411),)
    assert log.checkpoints == (30,)
    assert log.samples_per_second(512) == 512 * 2 / 50


def test_steps_that_a_resumed_job_repeats_count_once(tmp_path):
    line = " iteration {:8d}/    1000 | elapsed time per iteration (ms): 1000.0 | lm loss: {:.6E} |\n"
    (tmp_path / "a").write_text("".join(line.format(step, 4.0) for step in (10, 20, 30)))
    (tmp_path / "b").write_text("".join(line.format(step, 3.0) for step in (20, 30, 40)))
    (tmp_path / "c").write_text(line.format(10, 5.0))
    log = read_training_log([tmp_path / "a", tmp_path / "b"])
    # A requeued job starts over: what it logged before no longer counts.
    assert [entry.step for entry in read_training_log([tmp_path / "a", tmp_path / "c"]).iterations] == [10]
    assert [(entry.step, entry.loss) for entry in log.iterations] == [(10, 4.0), (20, 3.0), (30, 3.0), (40, 3.0)]


def test_a_log_that_is_no_log_is_no_error(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"\xff\xfe iteration x/y |\niteration 1/2 | lm loss: banana |\n")
    (entry,) = read_training_log([path]).iterations
    assert math.isnan(entry.loss) and entry.seconds is None
    assert TrainingLog((), (), ()).samples_per_second(512) is None
    assert "none logged" in describe_training(TrainingLog((), (), ()), 512, None, PAGE)


def test_curves_are_a_picture_that_fits_into_an_artifact():
    log = read_training_log([SAMPLE])
    uri = curves(log)
    picture = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    assert picture.size == (800, 400) and len(uri) < 300_000
    text = describe_training(log, 512, uri, PAGE)
    assert uri in text and str(PAGE) in text and "3.4588" in text and "Validation loss at 30" in text
    assert curves(TrainingLog((), (), ())) is None


def test_logs_of_the_steps_are_found_beside_the_jobs_own(tmp_path):
    own = tmp_path / "sbatch_vision-vision.training_421.out"
    for name in (own.name, "log-vision-vision.training_421_0.out", "log-vision-vision.training_4210_0.out", "421.txt"):
        (tmp_path / name).write_text(name)
    assert {path.name for path in logs_of(421, own)} == {own.name, "log-vision-vision.training_421_0.out"}
    assert logs_of(421, None) == [] == logs_of(421, tmp_path / "gone" / "x.out")


def test_a_line_of_the_log_tells_the_step_of_all():
    assert step_in("job 421 is RUNNING: 12:00:00 iteration       10/    1000 | lm loss: 3.6E+00 |") == (10, 1000)
    assert step_in("job 421 is PENDING (Resources)") is None


def test_tail_shows_words_only(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * 100_000 + b"\n\x1b[31mred\x1b[0m\n\n10%\r20%\rlast\x07\n")
    assert tail(log, 3) == "10%\n20%\nlast"
    assert tail(log, 4).splitlines()[0] == "red"
    assert tail(tmp_path / "none", 3) == ""
