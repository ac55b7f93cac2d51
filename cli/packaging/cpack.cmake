# Debian packages: "headrace" holds the tool, "libheadrace1" the library with the C interface, "libheadrace-dev" what
# programs are built with (static libraries for C++, headers), "python3-headrace" the Python package.
#   cpack -G DEB --config build/release/CPackConfig.cmake
set(CPACK_PACKAGE_NAME headrace)
set(CPACK_PACKAGE_VENDOR headrace)
set(CPACK_PACKAGE_CONTACT "The headrace authors <headrace@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL tool lib dev python3)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# What a package depends on are the libraries of the release that it is built on. So each release has packages of its
# own, and those of a newer one replace those of an older one when the machine goes on: 0.1.0-1~debian12, 1~debian13.
cmake_host_system_information(RESULT distribution QUERY DISTRIB_INFO)
set(CPACK_DEBIAN_PACKAGE_RELEASE "1~${distribution_ID}${distribution_VERSION_ID}")
set(package_version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # for packages that link libheadrace.so.1

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME headrace)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOL_PACKAGE_DEPENDS fuse3)
set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS memcached)  # mounts that share
set(CPACK_COMPONENT_TOOL_DESCRIPTION "Mounts data sets so that training samples are in memory before they are read.")

# What a Debian package has beside its files. Only a package rotates logs: it alone owns /etc.
set(packaging ${PROJECT_SOURCE_DIR}/cli/packaging)
foreach(package IN ITEMS tool:headrace lib:libheadrace1 dev:libheadrace-dev python3:python3-headrace)
  string(REPLACE ":" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  install(CODE "
    set(doc \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/${name}\")
    file(INSTALL ${packaging}/copyright DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/doc/${name}\")
    file(ARCHIVE_CREATE OUTPUT \"\${doc}/changelog.gz\" PATHS ${PROJECT_SOURCE_DIR}/CHANGELOG.md
      FORMAT raw COMPRESSION GZip)"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()
install(CODE "
  if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
    file(INSTALL ${packaging}/logrotate DESTINATION /etc/logrotate.d RENAME headrace)
  endif()" COMPONENT tool EXCLUDE_FROM_ALL)
file(WRITE ${PROJECT_BINARY_DIR}/packaging/conffiles "/etc/logrotate.d/headrace\n")
set(CPACK_DEBIAN_TOOL_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/packaging/conffiles)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libheadrace-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
string(JOIN ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libheadrace1 (= ${package_version})"
  libboost-dev libcurl4-openssl-dev libexpat1-dev libexpected-dev libfmt-dev libfuse3-dev libhwy-dev
  libjpeg62-turbo-dev libspdlog-dev libspng-dev libssl-dev liburing-dev libwebp-dev libxxhash-dev)
set(CPACK_COMPONENT_DEV_DESCRIPTION "Libraries and headers of headrace: reader, decoder, mount, and the C interface.")

set(CPACK_DEBIAN_LIB_PACKAGE_NAME libheadrace1)  # 1: the ABI's number (SOVERSION in capi/)
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_LIB_DESCRIPTION "libheadrace.so: data sets and training batches for any language, through C.")

set(CPACK_DEBIAN_PYTHON3_PACKAGE_NAME python3-headrace)
set(CPACK_DEBIAN_PYTHON3_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON3_PACKAGE_DEPENDS "python3 (>= 3.9), libheadrace1 (= ${package_version})")
set(CPACK_DEBIAN_PYTHON3_PACKAGE_RECOMMENDS headrace)  # attach(), and ranks that share a node
set(CPACK_DEBIAN_PYTHON3_PACKAGE_SUGGESTS "python3-torch, python3-numpy")
set(CPACK_COMPONENT_PYTHON3_DESCRIPTION "import headrace: a loader with the face of torch's DataLoader.")

include(CPack)
