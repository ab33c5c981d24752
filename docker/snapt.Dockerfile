# snapt in a small image. From the root of the source tree:
#   docker build -f docker/snapt.Dockerfile -t continuo/snapt .
# The build stage is the same for both images and is made once.
ARG BASE=debian:12-slim
FROM ${BASE} AS build
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        g++ cmake ninja-build pkg-config libuv1-dev libssl-dev libzstd-dev libnftables-dev libseccomp-dev \
        libtoml11-dev nlohmann-json3-dev libsqlite3-dev libmicrohttpd-dev && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY . /source
RUN cmake -S /source -B /build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCONTINUO_TESTS=OFF && \
    cmake --build /build -j "$(nproc)" --target cnapt snapt && strip /build/bin/cnapt /build/bin/snapt

FROM ${BASE}
RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        libuv1 libssl3 libzstd1 libnftables1 netbase libseccomp2 libsqlite3-0 libmicrohttpd12 libstdc++6 tzdata && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* && \
    groupadd --system continuo && \
    useradd --system --gid continuo --home-dir /nonexistent --shell /usr/sbin/nologin continuo && \
    install -d -m 2750 -g continuo /etc/continuo && \
    install -d -m 0750 -o continuo -g continuo /var/lib/snapt
COPY --from=build /build/bin/snapt /usr/sbin/snapt
VOLUME ["/etc/continuo", "/var/lib/snapt"]
EXPOSE 9347/tcp 9347/udp
HEALTHCHECK --interval=30s --timeout=5s CMD ["snapt", "status"]
# Begins as root (of the container) and goes on as continuo with CAP_NET_ADMIN alone.
ENTRYPOINT ["snapt"]
CMD ["run"]
