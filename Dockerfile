# SPDX-License-Identifier: Apache-2.0
# Builds headrace from a clone, and makes an image that has its package: docker build -t headrace .
# It is Debian 12, and 13 with --build-arg DEBIAN=13. tests/package/run does what stands here in a bare Debian, without
# docker.
ARG DEBIAN=12
FROM debian:$DEBIAN AS build
WORKDIR /headrace
COPY .ci .ci
RUN .ci/install build package
COPY . .
RUN cmake -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADRACE_DEVELOPER_MODE=OFF
RUN cmake --build build/release
RUN cpack -G DEB --config build/release/CPackConfig.cmake -B build/release/packages

FROM debian:$DEBIAN-slim
COPY --from=build /headrace/build/release/packages/headrace_*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates memcached /tmp/headrace_*.deb
CMD ["headrace", "--help"]
