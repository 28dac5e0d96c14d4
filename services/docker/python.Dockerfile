# Our own processes, one target an image. Each installs what its lock file names and nothing else: `web` has neither
# browser nor trafilatura. Build arguments: mirrors of PyPI (PIP_INDEX_URL, PIP_TRUSTED_HOST) and of Debian (APT_MIRROR,
# such as https://mirror.example).

FROM python:3.11-slim-bookworm AS base
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    HOME=/tmp \
    PLUMBLINE_HOME=/var/lib/plumbline \
    PLUMBLINE_CACHE=/tmp/plumbline-cache
# The number is that of Elasticsearch's and Kibana's images too: what one writes for another can stay closed to the rest.
RUN groupadd --gid 1000 plumbline \
    && useradd --uid 1000 --gid 1000 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin plumbline \
    && install -d -o plumbline -g plumbline /var/lib/plumbline /var/lib/plumbline/archive /secrets
WORKDIR /opt/plumbline


FROM base AS sample-site
COPY services/__init__.py services/
COPY services/docker/__init__.py services/docker/probe.py services/docker/
COPY services/sample_site services/sample_site
USER 1000:1000
ENTRYPOINT ["python", "-m", "services.sample_site.server"]
CMD ["--host", "0.0.0.0", "--port", "8080"]


FROM base AS web
ARG PIP_INDEX_URL=
ARG PIP_TRUSTED_HOST=
COPY services/docker/web.lock /tmp/web.lock
RUN pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes -r /tmp/web.lock
COPY portal.toml ./
COPY es-mappings es-mappings
COPY crawler crawler
COPY extractor extractor
COPY services services
COPY web web
RUN python -m compileall -q crawler extractor services web
USER 1000:1000
ENTRYPOINT ["python", "-m", "services.command_line"]
CMD ["process", "web"]


FROM base AS indexer
ARG PIP_INDEX_URL=
ARG PIP_TRUSTED_HOST=
COPY services/docker/indexer.lock /tmp/indexer.lock
RUN pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes -r /tmp/indexer.lock
COPY portal.toml ./
COPY es-mappings es-mappings
COPY crawler crawler
COPY extractor extractor
COPY services services
RUN python -m compileall -q crawler extractor services
USER 1000:1000
ENTRYPOINT ["python", "-m", "services.command_line"]
CMD ["process", "indexer"]


FROM base AS scheduler
ARG PIP_INDEX_URL=
ARG PIP_TRUSTED_HOST=
COPY services/docker/scheduler.lock /tmp/scheduler.lock
RUN pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes -r /tmp/scheduler.lock
COPY portal.toml ./
COPY es-mappings es-mappings
COPY crawler crawler
COPY services services
RUN python -m compileall -q crawler services
USER 1000:1000
ENTRYPOINT ["python", "-m", "services.command_line"]
CMD ["process", "scheduler"]


FROM base AS setup
ARG PIP_INDEX_URL=
ARG PIP_TRUSTED_HOST=
COPY services/docker/setup.lock /tmp/setup.lock
RUN pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes -r /tmp/setup.lock
COPY portal.toml ./
COPY es-mappings es-mappings
COPY crawler crawler
COPY services services
# A volume is mounted at each of these folders; an empty one takes its owner from here.
RUN install -d -o plumbline -g plumbline \
    /secrets/setup /secrets/elasticsearch /secrets/kibana /secrets/kibana-setup /secrets/postgres \
    /secrets/crawler /secrets/indexer /secrets/scheduler /secrets/web \
    && python -m compileall -q crawler services
USER 1000:1000
ENTRYPOINT ["python", "-m", "services.docker.setup"]


FROM base AS crawler
ARG APT_MIRROR=
# Versions of Debian's packages are not pinned: a stable release only mends them, and keeps the newest alone.
# hadolint ignore=DL3008
RUN if [ -n "${APT_MIRROR}" ]; then \
        sed -i -E "s#^(URIs: *)https?://[^/]+#\1${APT_MIRROR}#" /etc/apt/sources.list.d/debian.sources; \
    fi \
    && apt-get update \
    && apt-get install -y --no-install-recommends chromium \
    && rm -rf /var/lib/apt/lists/*
ARG PIP_INDEX_URL=
ARG PIP_TRUSTED_HOST=
COPY services/docker/crawler.lock /tmp/crawler.lock
RUN pip install --no-cache-dir --no-deps --only-binary :all: --require-hashes -r /tmp/crawler.lock
COPY portal.toml ./
COPY es-mappings es-mappings
COPY crawler crawler
COPY services services
RUN python -m compileall -q crawler services
USER 1000:1000
ENTRYPOINT ["python", "-m", "services.command_line"]
CMD ["process", "crawler"]
