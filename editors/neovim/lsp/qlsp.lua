---@brief
---
--- Finds quantization mistakes in PyTorch model code. `pip install qlsp` puts the server on the PATH.

---@type vim.lsp.Config
return {
  cmd = { 'qlsp', 'server' },
  filetypes = { 'python' },
  root_markers = { 'qlsp.toml', 'pyproject.toml', 'setup.py', '.git' },
  settings = { qlsp = {} },
}
