"""Downloads TARGET from the repository in FOLDER with python-tuf's ngclient and prints its bytes.

Usage: ngclient.py ROOT FOLDER CACHE TARGET, where FOLDER has metadata/ and targets/.
"""

import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient import FetcherInterface, Updater


class Folder(FetcherInterface):
    """Files instead of a web server: the client's own rules are what counts here."""

    def _fetch(self, url):
        path = Path(unquote(urlparse(url).path))
        if not path.is_file():
            raise DownloadHTTPError(f"no {path.name}", 404)
        yield path.read_bytes()


root, folder, cache, name = sys.argv[1:]
updater = Updater(
    metadata_dir=cache,
    metadata_base_url=f"file://{folder}/metadata/",
    target_base_url=f"file://{folder}/targets/",
    target_dir=cache,
    fetcher=Folder(),
    bootstrap=Path(root).read_bytes(),
)
updater.refresh()
target = updater.get_targetinfo(name)
if target is None:
    sys.exit(f"no role lists {name}")
path = updater.download_target(target)
sys.stdout.buffer.write(Path(path).read_bytes())
