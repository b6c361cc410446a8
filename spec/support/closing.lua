-- closing: busted's TAP output with the closing line "N passed, N failed, N skipped".

local busted = require "busted"

return function(options)
  local handler = require "busted.outputHandlers.TAP"(options)
  busted.subscribe({ "suite", "end" }, function()
    print(("%d passed, %d failed, %d skipped"):format(handler.successesCount,
      handler.failuresCount + handler.errorsCount, handler.pendingsCount))
    return nil, true
  end)
  return handler
end
