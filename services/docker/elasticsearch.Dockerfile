# The official Elasticsearch image and our analysis plugin. Build arguments: a mirror of PyPI (PIP_INDEX_URL,
# PIP_TRUSTED_HOST); Maven's settings, with a mirror if need be, come as the secret `maven-settings`.

ARG ELASTICSEARCH_VERSION=9.5.3


FROM python:3.11-slim-bookworm AS tables
ARG PIP_INDEX_URL=
ARG PIP_TRUSTED_HOST=
WORKDIR /build
COPY services/elasticsearch/analysis-jieba/generate_tables.py ./
RUN python generate_tables.py tables


FROM maven:3.9-eclipse-temurin-25 AS plugin
WORKDIR /build
COPY services/elasticsearch/analysis-jieba/pom.xml ./
COPY services/elasticsearch/analysis-jieba/src/main src/main
COPY --from=tables /build/tables target/tables/io/plumbline/tables
# exec.skip: the tables are made already.
RUN --mount=type=secret,id=maven-settings \
    mvn -B -q --settings /run/secrets/maven-settings -Dexec.skip=true -Dmaven.test.skip=true package \
    && mv target/analysis-jieba-*.zip /build/analysis-jieba.zip


FROM docker.elastic.co/elasticsearch/elasticsearch:${ELASTICSEARCH_VERSION}
WORKDIR /usr/share/elasticsearch
# Its tool runs out of memory with the heap that it takes by itself.
RUN --mount=type=bind,from=plugin,source=/build/analysis-jieba.zip,target=/tmp/analysis-jieba.zip \
    CLI_JAVA_OPTS=-Xmx512m bin/elasticsearch-plugin install --batch file:///tmp/analysis-jieba.zip
COPY --chown=1000:0 services/docker/elasticsearch.yml config/elasticsearch.yml
USER 1000:0
