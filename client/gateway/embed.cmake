# tvq_embed(SOURCES SOURCE FOLDER|FILE...): writes SOURCE, which has the files' bytes and their paths in FOLDER
# as EmbeddedFiles() of static_files.h, and those of text compressed by gzip besides. SOURCES is what a target
# needs for it. The assembler reads the files, so that size costs no time.
find_program(TVQ_GZIP gzip REQUIRED)

function(tvq_embed sources source)
  set(assembly "")
  set(names "")
  set(table "")
  set(number 0)
  set(read_files "")
  set(made_files "")
  foreach(entry ${ARGN})
    string(REPLACE "|" ";" pair ${entry})
    list(GET pair 0 folder)
    list(GET pair 1 file)
    file(RELATIVE_PATH path ${folder} ${file})
    list(APPEND read_files ${file})
    set(symbol tvq_file_${number})
    tvq_embed_bytes(${symbol} ${file})
    set(compressed "{}")
    if(path MATCHES "\\.(css|html|js|json|svg|txt|webmanifest)$")
      set(gzipped ${CMAKE_CURRENT_BINARY_DIR}/compressed/${path}.gz)
      get_filename_component(gzipped_folder ${gzipped} DIRECTORY)
      # Without the name and the time: the same bytes each time.
      add_custom_command(OUTPUT ${gzipped}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${gzipped_folder}
        COMMAND ${TVQ_GZIP} -9nc ${file} > ${gzipped}
        DEPENDS ${file} VERBATIM)
      list(APPEND made_files ${gzipped})
      tvq_embed_bytes(${symbol}_gzip ${gzipped})
      set(compressed ${view})
      tvq_embed_view(${symbol})
    endif()
    string(APPEND table "      {\"${path}\", ${view}, ${compressed}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"// Made by embed.cmake.
#include <cstddef>

#include \"client/gateway/static_files.h\"

asm(\".section .rodata\\n\"
@assembly@    \".previous\\n\");

extern \"C\" {
@names@}

namespace tvq::gateway {

std::span<const StaticFile> EmbeddedFiles() {
  static const StaticFile kFiles[] = {
@table@  };
  return kFiles;
}

}  // namespace tvq::gateway
")
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${read_files};${made_files}")
  set(${sources} ${source} ${made_files} PARENT_SCOPE)
endfunction()

# The bytes of `file` between the symbols `symbol` and `symbol`_end, and in `view` what C++ calls them.
macro(tvq_embed_bytes symbol file)
  string(APPEND assembly
    "    \".globl ${symbol}\\n${symbol}:\\n.incbin \\\"${file}\\\"\\n\"\n"
    "    \".globl ${symbol}_end\\n${symbol}_end:\\n.byte 0\\n\"\n")
  string(APPEND names "extern const char ${symbol}[];\nextern const char ${symbol}_end[];\n")
  tvq_embed_view(${symbol})
endmacro()

macro(tvq_embed_view symbol)
  set(view "{${symbol}, static_cast<size_t>(${symbol}_end - ${symbol})}")
endmacro()
