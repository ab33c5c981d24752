# Writes the sources that a program was linked from to a file beside it:
#   cmake -D SOURCE=TREE -D TARGET=FILE -D BUILD=TYPE -P built_from.cmake
# "+changes": the tree had uncommitted changes. Without git, or in a tree without history, the commit is unknown.
find_package(Git QUIET)
set(commit unknown)
if(GIT_FOUND)
  set(git ${GIT_EXECUTABLE} -c safe.directory=${SOURCE} -C ${SOURCE})
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD OUTPUT_VARIABLE named OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(commit ${named})
    execute_process(COMMAND ${git} status --porcelain --untracked-files=no -- common classifier policy rating cnapt snapt cmake CMakeLists.txt
      OUTPUT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND commit "+changes")
    endif()
  endif()
endif()
file(WRITE ${TARGET} "commit=${commit}\nbuild=${BUILD}\n")
