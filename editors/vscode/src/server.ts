// Where the server is: settings first, then the Python environment, then the PATH.
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Executable } from "vscode-languageclient/node";

/** The part of the Python extension's API that is used here. */
interface PythonApi {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(environment: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

export async function pythonApi(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
  if (extension === undefined) {
    return undefined;
  }
  try {
    return extension.isActive ? extension.exports : await extension.activate();
  } catch {
    return undefined;
  }
}

/** How to start the server. The working folder is the extension's own, so that no file of the workspace is imported. */
export async function findServer(folder: string, log: vscode.LogOutputChannel): Promise<Executable> {
  const options = { cwd: folder, env: { ...process.env, PYTHONUNBUFFERED: "1" } };
  for (const program of programs("path")) {
    if (isFile(program)) {
      log.info(`qlsp.path: ${program}`);
      return { command: program, args: ["server"], options };
    }
    log.warn(`qlsp.path: ${program} does not exist`);
  }
  const settings = vscode.workspace.getConfiguration("qlsp");
  const chosen = programs("interpreter")[0];
  if (chosen !== undefined) {
    log.info(`qlsp.interpreter: ${chosen}`);
    return { command: chosen, args: ["-m", "qlsp", "server"], options };
  }
  if (settings.get("importStrategy") !== "fromPath" && vscode.workspace.isTrusted) {
    const python = await activeInterpreter();
    const program = python === undefined ? undefined : beside(python);
    if (program !== undefined) {
      log.info(`Python environment: ${program}`);
      return { command: program, args: ["server"], options };
    }
  }
  log.info("the PATH");
  return { command: "qlsp", args: ["server"], options };
}

/** A list setting with its variables replaced. In a workspace that is not trusted only the user's own value counts. */
function programs(name: string): string[] {
  const settings = vscode.workspace.getConfiguration("qlsp");
  const values = vscode.workspace.isTrusted
    ? settings.get<string[]>(name)
    : settings.inspect<string[]>(name)?.globalValue;
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  return (values ?? []).map((value) =>
    value.replace(/\$\{workspaceFolder\}/g, folder).replace(/^~(?=[/\\])/, process.env.HOME ?? "~"),
  );
}

async function activeInterpreter(): Promise<string | undefined> {
  const api = await pythonApi();
  if (api === undefined) {
    return undefined;
  }
  const resource = vscode.workspace.workspaceFolders?.[0]?.uri;
  const environment = await api.environments.resolveEnvironment(api.environments.getActiveEnvironmentPath(resource));
  return environment?.executable.uri?.fsPath;
}

/** The program `qlsp` that was installed with an interpreter. */
function beside(python: string): string | undefined {
  const folder = path.dirname(python);
  const names = process.platform === "win32" ? ["qlsp.exe", "Scripts\\qlsp.exe"] : ["qlsp"];
  return names.map((name) => path.join(folder, name)).find(isFile);
}

function isFile(program: string): boolean {
  return fs.statSync(program, { throwIfNoEntry: false })?.isFile() ?? false;
}
