// Starts `qlsp server`, passes the settings on, and shows how it is doing. Everything else is the server's.
import * as vscode from "vscode";
import { LanguageClient, RevealOutputChannelOn, State, type LanguageClientOptions } from "vscode-languageclient/node";
import { findServer, pythonApi } from "./server";

const RESTART_SETTINGS = ["qlsp.path", "qlsp.interpreter", "qlsp.importStrategy"];
const SELECTOR = ["file", "untitled"].map((scheme) => ({ language: "python", scheme }));

let client: LanguageClient | undefined;
let busy: Promise<void> = Promise.resolve();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("qlsp", { log: true });
  const serverLog = vscode.window.createOutputChannel("qlsp Language Server", { log: true });
  const status = vscode.languages.createLanguageStatusItem("qlsp.status", SELECTOR);
  status.name = "qlsp";
  status.command = { command: "qlsp.showServerLogs", title: "Show Logs" };

  // One restart after the other: two at once would leave two servers.
  const restart = (): Promise<void> => {
    busy = busy.then(async () => {
      await stop();
      await start(context, log, serverLog, status);
    });
    return busy;
  };

  context.subscriptions.push(
    log,
    serverLog,
    status,
    vscode.commands.registerCommand("qlsp.restart", restart),
    vscode.commands.registerCommand("qlsp.showLogs", () => log.show()),
    vscode.commands.registerCommand("qlsp.showServerLogs", () => serverLog.show()),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (RESTART_SETTINGS.some((name) => event.affectsConfiguration(name))) {
        void restart();
      }
    }),
  );
  const api = await pythonApi();
  if (api !== undefined) {
    context.subscriptions.push(api.environments.onDidChangeActiveEnvironmentPath(restart));
  }
  await restart();
}

export async function deactivate(): Promise<void> {
  await busy;
  await stop();
}

async function start(
  context: vscode.ExtensionContext,
  log: vscode.LogOutputChannel,
  serverLog: vscode.LogOutputChannel,
  status: vscode.LanguageStatusItem,
): Promise<void> {
  const server = await findServer(context.extensionPath, log);
  log.info(`starting ${server.command} ${server.args?.join(" ") ?? ""}`);
  const options: LanguageClientOptions = {
    documentSelector: SELECTOR,
    outputChannel: serverLog,
    traceOutputChannel: serverLog,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    // The command of the same name is this extension's, which works without a server, too.
    initializationOptions: { clientCommands: ["qlsp.restart"] },
    initializationFailedHandler: (error) => {
      log.error(`${error}`);
      return false;
    },
  };
  const started = new LanguageClient("qlsp", "qlsp Language Server", server, options);
  client = started;
  started.onDidChangeState(({ newState }) => show(status, newState));
  try {
    await started.start();
    log.info(`${started.initializeResult?.serverInfo?.name} ${started.initializeResult?.serverInfo?.version} runs`);
  } catch (error) {
    log.error(`${error}`);
    status.severity = vscode.LanguageStatusSeverity.Error;
    status.text = "qlsp does not start";
    status.detail = `${server.command}: ${error}. Install it with "pip install qlsp", or set "qlsp.path".`;
    status.busy = false;
  }
}

async function stop(): Promise<void> {
  const old = client;
  client = undefined;
  try {
    await old?.dispose();
  } catch {
    // It did not start, or is gone already.
  }
}

function show(status: vscode.LanguageStatusItem, state: State): void {
  status.busy = state === State.Starting;
  status.severity =
    state === State.Stopped ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
  status.text = { [State.Starting]: "qlsp starts", [State.Running]: "qlsp", [State.Stopped]: "qlsp has stopped" }[state];
  status.detail = undefined;
}
