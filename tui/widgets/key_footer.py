"""The keys that matter now, at the bottom of a screen."""

from textual.app import ComposeResult
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from tui import keys

_PALETTE_CELLS, _PALETTE_FROM = 8, 100


class KeyFooter(Footer):
    """Textual's footer with our choice of keys: those of the table that mean something now, the most important first."""

    _made_for = 0

    def on_resize(self) -> None:
        """Another width holds other keys whole."""
        if self._made_for not in (0, self.app.size.width):
            self.call_after_refresh(self.recompose)

    def compose(self) -> ComposeResult:
        """A key each, and the palette's."""
        if not self._bindings_ready:
            return
        self._made_for = self.app.size.width
        active = self.screen.active_bindings
        able = [binding.action for _, binding, enabled, _ in active.values() if enabled]
        palette = _PALETTE_CELLS if self.app.size.width >= _PALETTE_FROM else 0  # below that the style sheet hides it
        chosen = keys.in_footer(able, self.app.size.width - palette)
        self.styles.grid_size_columns = len(chosen)
        for key in chosen:
            yield FooterKey(key.names[0], key.shown_as, key.short, key.action, tooltip=key.help).data_bind(compact=Footer.compact)
        if self.app.COMMAND_PALETTE_BINDING in active:
            _, binding, enabled, _ = active[self.app.COMMAND_PALETTE_BINDING]
            shown = self.app.get_key_display(binding)
            yield FooterKey(binding.key, shown, "All", binding.action, classes="-command-palette", disabled=not enabled)
