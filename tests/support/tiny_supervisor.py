"""`python -m support.tiny_supervisor WORKERS FOLDER`: the real supervisor, with tiny workers.

The folder holds their configuration, `tiny.toml`. With the word `local` as a third argument there is
an embedded model too, as far as a supervisor can tell. SIGUSR1 kills the tasks that keep the workers.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop

from streamweir.server.process.background import background_tasks
from streamweir.server.process.sd_notify import take_notifier
from streamweir.server.process.supervisor import Plan, open_listeners, supervise
from streamweir.server.telemetry.log import configure_log, logger
from streamweir.upstream.local import LocalAddress


class Model:
    address = LocalAddress(base_url="http://127.0.0.1:1/v1", api_key="the-key-of-the-model")

    def start(self) -> None:
        logger.info("model started")

    async def stop(self) -> None:
        logger.info("model stopped")


def main() -> int:
    folder = Path(sys.argv[2])
    configure_log("json", sys.stderr)
    listeners = open_listeners("127.0.0.1", 0)
    logger.info("bound", port=listeners[0].getsockname()[1])
    plan = Plan(
        workers=int(sys.argv[1]),
        data_dir=folder,
        config_path=folder / "tiny.toml",
        module="support.tiny_worker",
        first_delay_s=float(os.environ.get("TINY_DELAY_S", "0.1")),
        kill_s=0.2,
    )
    local = Model() if "local" in sys.argv else None
    notifier = take_notifier(os.environ)

    def on_serving() -> None:
        logger.info("all serve")

    async def run() -> int:
        background = background_tasks()

        def kill_keepers() -> None:
            for kept in background.running:
                if kept.task is not None:
                    kept.task.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, kill_keepers)
        return await supervise(
            plan,
            listeners,
            os.environ,
            local=local,
            on_serving=on_serving,
            notifier=notifier,
            background=background,
        )

    return uvloop.run(run())


if __name__ == "__main__":
    sys.exit(main())
