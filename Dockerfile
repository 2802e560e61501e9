# A team's server and its worker. Weights of the local model come with its package; no secret is baked in.
ARG PYTHON=3.13-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
# hadolint ignore=DL3013
RUN python -m venv --without-pip /opt/harken && pip --python /opt/harken/bin/python install ".[local,mcp,metrics,oidc,postgres,server]"

FROM python:${PYTHON}
RUN groupadd --gid 10001 harken \
    && useradd --uid 10001 --gid harken --home-dir /var/lib/harken --create-home --shell /usr/sbin/nologin harken
COPY --from=build /opt/harken /opt/harken
ENV PATH=/opt/harken/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HARKEN_HOME=/var/lib/harken \
    HARKEN_SERVE__HOST=0.0.0.0 \
    HARKEN_SERVE__PORT=4275
USER 10001:10001
# Settings and caches; the rest of the file system may be read-only.
VOLUME /var/lib/harken
EXPOSE 4275
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:4275/readyz', timeout=4)"]
ENTRYPOINT ["harken"]
CMD ["serve", "--team"]
