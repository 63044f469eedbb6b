"""Looks at the GPUs in a process of its own, because the library that it loads is chosen by
LD_LIBRARY_PATH, and prints them as JSON: `python nvml_child.py LOOKS [SECONDS_BETWEEN]`.
"""

import json
import os
import sys
import time
from pathlib import Path

from hosttune.codec import to_json
from hosttune.measure.gpu.nvml import NoNvml, NvmlSampler

looks = int(sys.argv[1])
pause = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
try:
    sampler = NvmlSampler(2.0, 0.5, Path(os.environ.get("FAKE_GPUS", "/proc/driver/nvidia/gpus")))
except NoNvml as error:
    print(json.dumps({"none": str(error), "is_final": error.is_final}))
    sys.exit()
seen, seconds = [], []
for _ in range(looks):
    start = time.monotonic()
    seen.append([to_json(sample) for sample in sampler.read()])
    seconds.append(time.monotonic() - start)
    time.sleep(pause)
sampler.close()
print(
    json.dumps(
        {
            "reason": sampler.reason,
            "looks": seen,
            "seconds": seconds,
            "bindings": sys.modules["pynvml"].__file__,
        }
    )
)
