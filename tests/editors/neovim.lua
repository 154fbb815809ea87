-- Drives the plugin in a real Neovim and writes down what a user would see.
vim.opt.runtimepath:prepend(vim.env.QLSP_PLUGIN)
vim.opt.swapfile = false
vim.lsp.enable('qlsp')
vim.cmd('filetype on')
vim.cmd('edit! net.py')

local function wait(what, condition)
  if not vim.wait(30000, condition, 10) then error('waited too long for ' .. what) end
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n') .. '\n'
end

local function found()
  local seen = {}
  for _, each in ipairs(vim.diagnostic.get(0)) do
    local lines = vim.api.nvim_buf_get_text(0, each.lnum, each.col, each.end_lnum, each.end_col, {})
    local lsp = each.user_data.lsp
    seen[#seen + 1] = {
      code = each.code,
      text = table.concat(lines, '\n'),
      href = lsp.codeDescription ~= nil and lsp.codeDescription.href ~= nil,
    }
  end
  return #seen > 0 and seen or vim.empty_dict()
end

local function run()
  local result = { version = vim.fn.execute('version'):match('NVIM [^\n]*') }
  wait('a finding', function() return #vim.diagnostic.get(0) > 0 end)
  result.found = found()
  local client = vim.lsp.get_clients({ bufnr = 0 })[1]
  result.encoding = client.offset_encoding
  local first = vim.diagnostic.get(0)[1]
  vim.api.nvim_win_set_cursor(0, { first.lnum + 1, first.col })
  local hover = client:request_sync('textDocument/hover', vim.lsp.util.make_position_params(0, 'utf-8'), 5000, 0)
  result.hover = hover.result.contents.value
  vim.lsp.buf.code_action({
    apply = true,
    filter = function(action) return action.isPreferred end,
    context = { only = { 'quickfix' }, diagnostics = { first.user_data.lsp } },
  })
  wait('no finding', function() return #vim.diagnostic.get(0) == 0 and vim.bo.modified end)
  result.fixed, result.fixed_text = {}, text()
  vim.cmd('undo')
  wait('the finding again', function() return #vim.diagnostic.get(0) > 0 end)
  result.undone, result.undone_text = found(), text()
  result.clients = #vim.lsp.get_clients({ bufnr = 0 })
  return result
end

local fine, result = pcall(run)
if not fine then
  io.stderr:write(tostring(result) .. '\n')
else
  local file = assert(io.open(vim.env.QLSP_RESULT, 'w'))
  file:write(vim.json.encode(result))
  file:close()
end
vim.cmd('qall!')
