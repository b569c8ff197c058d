// Whether the kernel behind a widget is still the one that made it.

export const STOPPED = "Not finished: the kernel that computed this has stopped.";

/**
 * Call `then` when it is not any more: restarted, crashed, shut down. JupyterLab tells widgets of a restart that
 * somebody asked for; of a crash only the kernel's status tells, and of a shutdown only that it is let go.
 * @param {any} model
 * @param {() => void} then
 * @returns {() => void}  stop watching
 */
export function whenGone(model, then) {
  const kernel = model.widget_manager?.kernel, status = kernel?.statusChanged;
  /** @param {unknown} _ @param {string} now */
  const watch = (_, now) => { if (["restarting", "autorestarting", "dead"].includes(now)) then(); };
  status?.connect(watch);
  kernel?.disposed?.connect(then);
  model.on("comm_live_update", then);
  return () => {
    status?.disconnect(watch);
    kernel?.disposed?.disconnect(then);
    model.off("comm_live_update", then);
  };
}

/** In a notebook opened without the kernel that it was saved with. @param {Element} el */
export const wasGone = (el) => el.classList.contains("jupyter-widgets-disconnected");
