# Turns files into one C source: cmake -DDIR=web -DNAMES=a;b -DOUT=assets.c -P embed.cmake
# Flat names only: a name is a URL path, and nothing may have to be escaped in one.
set(types_html "text/html; charset=utf-8")
set(types_css "text/css; charset=utf-8")
set(types_js "text/javascript; charset=utf-8")
set(types_svg "image/svg+xml")
set(total 0)
set(limit 102400) # the page has to load at once over a slow tunnel

set(arrays "")
set(rows "")
set(n 0)
list(SORT NAMES)
foreach(name IN LISTS NAMES)
  if(NOT name MATCHES "^[a-z-]+\\.([a-z]+)$")
    message(FATAL_ERROR "asset name '${name}' is not flat lower case")
  endif()
  set(suffix "${CMAKE_MATCH_1}")
  if(NOT DEFINED types_${suffix})
    message(FATAL_ERROR "asset '${name}' has no known type")
  endif()
  file(SIZE "${DIR}/${name}" size)
  math(EXPR total "${total} + ${size}")
  file(SHA256 "${DIR}/${name}" hash)
  string(SUBSTRING "${hash}" 0 32 hash)
  file(READ "${DIR}/${name}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
         "\\1\n" bytes "${bytes}")
  string(APPEND arrays "static const unsigned char asset_${n}[] = {\n${bytes}0};\n\n")
  set(path "/${name}")
  if(name STREQUAL "index.html")
    set(path "/")
  endif()
  string(APPEND rows "    {\"${path}\", \"${types_${suffix}}\", asset_${n}, sizeof asset_${n} - 1,\n"
                     "     \"\\\"${hash}\\\"\"},\n")
  math(EXPR n "${n} + 1")
endforeach()
if(total GREATER limit)
  message(FATAL_ERROR "the page has ${total} bytes, more than ${limit}")
endif()

file(WRITE "${OUT}" "/* Generated from the files of the page. */\n#include \"api/assets.h\"\n\n"
     "${arrays}const struct api_asset api_assets[] = {\n${rows}};\n\n"
     "const size_t api_n_assets = sizeof api_assets / sizeof api_assets[0];\n")
