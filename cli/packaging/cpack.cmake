# Debian packages: "headrace" holds the tool, "libheadrace-dev" the libraries (static) with their headers.
#   cpack -G DEB --config build/release/CPackConfig.cmake
set(CPACK_PACKAGE_NAME headrace)
set(CPACK_PACKAGE_VENDOR headrace)
set(CPACK_PACKAGE_CONTACT "The headrace authors <headrace@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL tool dev)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME headrace)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOL_PACKAGE_DEPENDS fuse3)
set(CPACK_COMPONENT_TOOL_DESCRIPTION "Mounts data sets so that training samples are in memory before they are read.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libheadrace-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS ON)  # of libheadrace.so
string(JOIN ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  libboost-dev libexpected-dev libfmt-dev libfuse3-dev libhwy-dev libjpeg62-turbo-dev libspdlog-dev libspng-dev
  liburing-dev libwebp-dev libxxhash-dev)
set(CPACK_COMPONENT_DEV_DESCRIPTION "Libraries and headers of headrace: reader, decoder, mount; and libheadrace.so with a C interface.")

include(CPack)
